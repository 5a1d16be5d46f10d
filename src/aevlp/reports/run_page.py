"""The report of a run: reads the run's files, and image files where they still are, and writes one page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aevlp.core.errors import UserError
from aevlp.core.files import write_text
from aevlp.reports import charts
from aevlp.reports.evidence import Evidence, read_evidence
from aevlp.reports.examples import Exhibit, Gallery
from aevlp.reports.layout import page
from aevlp.reports.pictures import LARGE, SMALL, Picture, Shape, canvas, shapes, thumbnail
from aevlp.reports.wording import (
    LONG_NAME,
    History,
    Result,
    facts,
    figures,
    found_summary,
    notes,
    teacher_summary,
    title,
    verdict,
    why_no_pseudo_labels,
)
from aevlp.training.calibration import Reliability
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds, read_thresholds

MOST_ROWS = 2000  # classes in the table; of more, the best and the worst
SECTIONS = {
    "training": "Training",
    "distributions": "Probabilities",
    "pseudo-labels": "Pseudo-labels",
    "classes": "Classes",
    "curves": "Precision and recall",
    "reliability": "Reliability",
    "mistakes": "Hardest mistakes",
    "found": "New labels",
    "teacher": "The teacher",
    "settings": "Settings",
}


def write_report(run: RunFolder) -> Path:
    """Writes the run's report anew, whole, and returns where it is."""
    result = run.read_result()
    if result is None:
        raise UserError(
            f"{run.path}: the training is not finished; go on with aevlp train DATA --out {run.path} --resume, "
            "which writes the report at its end"
        )
    if not run.evidence.is_file():
        raise UserError(
            f"{run.path}: nothing was kept for a report ({run.evidence.name} is missing), as by aevlp before 0.4 or with "
            f"--report false; train it again: aevlp train DATA --out OTHER --recipe {run.config}"
        )
    evidence = read_evidence(run.evidence)
    thresholds = read_thresholds(run.thresholds, evidence.classes)
    history = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    config = run.config.read_text(encoding="utf-8", errors="replace")
    write_text(run.report, report_text(result, history, evidence, thresholds, config))
    return run.report


def report_text(result: Result, history: History, evidence: Evidence, thresholds: Thresholds, config: str) -> str:
    """The page."""
    drawings, words = _drawings(result, history, evidence, thresholds)
    rows = class_rows(result, evidence, thresholds)
    return page(
        "run.html.j2",
        title=title(result),
        result=result,
        evidence=evidence,
        split=LONG_NAME[evidence.split],
        sections=SECTIONS.items(),
        verdict=verdict(result, evidence),
        figures=figures(result, history),
        notes=notes(result, evidence, thresholds),
        charts=drawings,
        words=words,
        rows=rows,
        ap_key="per_class_AP" if result["per_class_AP"] is not None else "",
        why_no_pseudo_labels=why_no_pseudo_labels(result),
        mistaken=_items(evidence.mistaken),
        missed=_items(evidence.missed),
        found=_items(evidence.found),
        found_summary=found_summary(evidence),
        teacher=_items(evidence.teacher, LARGE),
        teacher_summary=teacher_summary(evidence),
        facts=facts(result, thresholds),
        config=config,
    )


@dataclass(frozen=True)
class ClassRow:
    """A row of the table of classes; figures in percent, but for the threshold and the counts."""

    name: str
    ap: float | None
    threshold: float
    support: int
    observed: int
    precision: float | None
    recall: float | None
    f1: float | None


def class_rows(result: Result, evidence: Evidence, thresholds: Thresholds) -> list[ClassRow]:
    """A row per class, the best average precision first; of very many classes the best and the worst."""
    measured = result["per_class_AP"] or dict(zip(evidence.classes, evidence.ap.tolist(), strict=True))
    rows = []
    for c, name in enumerate(evidence.classes):
        support, given, hits = (int(counts[c]) for counts in (evidence.support, evidence.given, evidence.hits))
        ap = measured[name]
        rows.append(
            ClassRow(
                name=name,
                ap=None if ap is None or np.isnan(ap) else ap,
                threshold=thresholds.classes[name],
                support=support,
                observed=int(evidence.observed[c]),
                precision=100 * hits / given if given else None,
                recall=100 * hits / support if support else None,
                f1=200 * hits / (given + support) if given + support else None,
            )
        )
    rows.sort(key=lambda row: -1.0 if row.ap is None else row.ap, reverse=True)
    half = MOST_ROWS // 2
    return rows if len(rows) <= MOST_ROWS else [*rows[:half], *rows[-half:]]


def _drawings(
    result: Result, history: History, evidence: Evidence, thresholds: Thresholds
) -> tuple[dict[str, Any], dict[str, str]]:
    """(the charts, what they show in words)."""
    best = result["best_epoch"]
    positive, negative = evidence.histograms[:, 0], evidence.histograms[:, 1]
    limits = np.array(list(thresholds.classes.values()))
    support, others = int(evidence.support.sum()), evidence.images * len(evidence.classes) - int(evidence.support.sum())
    right = others - int((evidence.given - evidence.hits).sum())
    drawings: dict[str, Any] = {
        "loss": charts.training("loss", history, "loss", best, label="loss"),
        "val": charts.training("val", history, "val_mAP", best, label="mAP, %"),
        "positives": charts.distribution("positives", positive, limits, thresholds.overall, what="positives"),
        "negatives": charts.distribution(
            "negatives", negative, limits, thresholds.overall, what="negatives" if evidence.is_complete else "labels not observed"
        ),
        "curves": [
            (title, curves, charts.precision_recall(name, curves))
            for name, title, curves in (
                ("best", "The best classes" if evidence.worst else "The classes", evidence.best),
                ("worst", "The worst classes", evidence.worst),
            )
            if curves
        ],
        "reliability": _reliability(evidence, thresholds),
    }
    words = {
        "loss": f"The loss goes from {history[0]['loss']:.4f} to {history[-1]['loss']:.4f}.",
        "val": f"The best validation mAP, {result['val_mAP']:.2f}, is that of epoch {best}.",
        "positives": f"{_percent(int(evidence.hits.sum()), support)} above their thresholds",
        "negatives": f"{_percent(right, others)} below theirs",
    }
    if any(line["pseudo_labels"] is not None for line in history):
        for figure in ("precision", "recall"):
            last = history[-1]["pseudo_labels"]
            drawings[figure] = charts.quality(figure, history, figure)
            average, total = (_in_percent(last[key]) for key in (figure, f"accumulated_{figure}"))
            words[figure] = f"Average {figure} {average}, accumulated {total}."
    return drawings, words


def _reliability(evidence: Evidence, thresholds: Thresholds) -> list[tuple[str, str, str]]:
    """(title, chart, words): on the images that calibration was fitted on, each half by the other, and on those judged by."""
    found: list[tuple[str, Reliability, Reliability | None]] = []
    if (fitted := thresholds.calibration) is not None:
        name = LONG_NAME[thresholds.split].capitalize()
        found.append((f"{name} images, each half calibrated by the other", fitted.before, fitted.after))
    if evidence.reliability is not None and (evidence.split != thresholds.split or not found):
        found.append((f"{LONG_NAME[evidence.split].capitalize()} images", *evidence.reliability))
    return [
        (title, charts.reliability(f"reliability-{number}", before, after), _errors(before, after))
        for number, (title, before, after) in enumerate(found)
    ]


def _errors(before: Reliability, after: Reliability | None) -> str:
    said = f"Calibration error {100 * before.error:.1f} %"
    return f"{said}." if after is None else f"{said} before, {100 * after.error:.1f} % after."


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _in_percent(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


@dataclass(frozen=True)
class Item:
    """An exhibit with its picture and, where it has tiles, their shapes on a canvas of that width and height."""

    exhibit: Exhibit
    picture: Picture
    width: int
    height: int
    shapes: list[Shape]


def _items(gallery: Gallery, size: int = SMALL) -> list[Item]:
    """The exhibits as the page shows them."""
    found = []
    for exhibit in gallery.exhibits:
        picture = thumbnail(exhibit.path, size)
        width, height = canvas(picture)
        found.append(Item(exhibit, picture, width, height, shapes(exhibit, width, height)))
    return found
