"""Synthetic runs: evidence, metrics and images of any number of classes, made quickly."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from aevlp.core.files import write_json
from aevlp.reports.collect import calibrated, extremes, histograms, precision_recall
from aevlp.reports.evidence import Evidence, Example, ExampleGrid, Tile, write_evidence
from aevlp.training.calibration import fit_calibration
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds, as_json

QUALITY = ("epoch_precision", "epoch_recall", "precision", "recall", "accumulated_precision", "accumulated_recall")


def picture(path: Path, size: tuple[int, int] = (64, 48), seed: int = 0) -> Path:
    """An image of noise, which does not compress well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(noise).save(path, quality=95)
    return path


def example(path: Path, label: str, classes: tuple[str, ...], *, grid: int = 0, truth: bool | None = True) -> Example:
    edges = np.linspace(0, 1, grid + 1).tolist()
    boxes = [(0.0, 0.0, 1.0, 1.0)]
    boxes += [(edges[x], edges[y], edges[x + 1], edges[y + 1]) for y in range(grid) for x in range(grid)]
    tiles = tuple(Tile(box, classes[n % len(classes)], 0.75, 0.01 * n) for n, box in enumerate(boxes)) if grid else ()
    pseudo = 1 if grid else None
    return Example(str(path), path.name, label, 0.875, 0.25, truth, classes[:2], pseudo, tiles)


def evidence(
    classes: tuple[str, ...], image: Path, *, images: int = 60, shown: int = 2, grid: int = 2, **changes: Any
) -> Evidence:
    """Evidence of random probabilities; every example is of the same image."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((images, len(classes))) < 0.3, 1, -1).astype(np.int8)
    found = np.clip(0.4 * (labels == 1) + 0.6 * rng.random(labels.shape), 0, 1).astype(np.float32)
    limits = np.full(len(classes), 0.5)
    ap = rng.uniform(20, 90, len(classes))
    there, given = labels == 1, found >= limits
    best, worst = (
        tuple(precision_recall(found[:, c], there[:, c], 0.5, label=classes[c], ap=float(ap[c])) for c in columns)
        for columns in extremes(ap)
    )
    names = [classes[n % len(classes)] for n in range(shown)]
    examples = ExampleGrid(tuple(example(image, name, classes) for name in names), 34, 12)
    teacher = ExampleGrid(tuple(example(image, name, classes, grid=grid, truth=False) for name in names), 56, 50)
    values = {
        "classes": classes,
        "split": "test",
        "is_complete": True,
        "images": images,
        "sample": 32,
        "observed_per_image": 1.0,
        "thresholds": limits,
        "ap": ap,
        "support": there.sum(0),
        "given": given.sum(0),
        "hits": (given & there).sum(0),
        "observed": there.sum(0),
        "histograms": histograms(found, labels, [np.arange(len(classes))]),
        "best": best,
        "worst": worst,
        "reliability": calibrated(found, labels, fit_calibration(found, there)),
        "mistaken": examples,
        "missed": examples,
        "found": examples,
        "teacher": teacher,
    }
    return Evidence(**{**values, **changes})


def thresholds(names: tuple[str, ...], **changes: Any) -> Thresholds:
    rng = np.random.default_rng(1)
    p = rng.random((40, 3)).astype(np.float32)
    values = {
        "aim": "f1",
        "precision": None,
        "basis": "complete",
        "split": "val",
        "images": 40,
        "positives": 1.75,
        "overall": 0.5,
        "classes": dict.fromkeys(names, 0.5),
        "calibration": fit_calibration(p, rng.random(p.shape) < p),
    }
    return Thresholds(**{**values, **changes})


def history(epochs: int = 4, *, pseudo: bool = True) -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    return [
        {
            "epoch": epoch,
            "loss": 1 / epoch,
            "val_mAP": 50 + 3.123456789 * epoch,
            "val_mAP_present": 50 + 3.123456789 * epoch,
            "pseudo_labels": dict(zip(QUALITY, rng.random(6).tolist(), strict=True)) if pseudo else None,
            "images_per_second": 123.456,
        }
        for epoch in range(1, epochs + 1)
    ]


def result(made: Evidence, lines: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    last = lines[-1]["pseudo_labels"] or dict.fromkeys(QUALITY)
    values = {
        "method": "aevlp",
        "recipe": "default",
        "protocol": "common",
        "seed": 3,
        "epochs": len(lines),
        "best_epoch": len(lines),
        "mAP": 61.23456789012345,
        "mAP_present": 62.34567890123456,
        "per_class_AP": dict(zip(made.classes, made.ap.tolist(), strict=True)),
        "val_mAP": lines[-1]["val_mAP"],
        "val_mAP_present": lines[-1]["val_mAP"],
        "val_labels": "complete",
        "labels": {
            "macro_F1": 51.111111111,
            "micro_F1": 52.222222222,
            "precision": 53.333333333,
            "recall": 54.444444444,
            "macro_F1_at_half": 45.555555555,
        },
        "pseudo_labels": {key: last[key] for key in QUALITY[2:]},
        "expected_positives": 1.5,
        "images_per_second": 123.456,
        "images": {"train": 1600, "val": 400, "test": made.images},
        "classes": list(made.classes),
        "data": "/photos/<holiday>",
        "backbone": "demo",
        "teacher": "demo",
        "versions": {"python": "3.11", "aevlp": "0.4.0"},
    }
    return {**values, **changes}


def write_run(
    folder: Path,
    made: Evidence,
    limits: Thresholds | None = None,
    lines: list[dict[str, Any]] | None = None,
    **changes: Any,
) -> RunFolder:
    """A run folder with all that a report is made from; `changes` are of its result."""
    run = RunFolder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = history() if lines is None else lines
    run.config.write_text("recipe: default\nmethod: aevlp\n")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_json(run.thresholds, as_json(limits or thresholds(made.classes)))
    write_json(run.result, result(made, lines, **changes))
    write_evidence(run.evidence, made)
    return run
