"""The result of a run: `result.json`, and tables of its metrics."""

import csv
import io
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.markup import escape
from rich.table import Table

from aevlp.core.files import write_text
from aevlp.core.spreadsheets import path_cell, refuse_formulas
from aevlp.data.annotations import WHOLE_IMAGE
from aevlp.data.dataset import Dataset, Split, data_fingerprint
from aevlp.training.baselines import Baselines
from aevlp.training.evaluate import Metrics, evaluate
from aevlp.training.setup import RunSetup, TrainingSetup
from aevlp.training.state import TrainState, best_epoch
from aevlp.training.thresholds import Thresholds

OBSERVED_ONLY = "A class's AP from observed labels is low where labels are missing: it does not tell good classes from bad ones."


def summarize(
    setup: RunSetup,
    state: TrainState | None,
    thresholds: Thresholds,
    test: Metrics | None,
    val: Metrics,
    baselines: Baselines | None,
) -> dict[str, Any]:
    """Return the content of `result.json`: mAP and F1 in percent, pseudo-label figures 0 to 1.

    `state` is the end of the training; None: nothing was trained, and figures of a training are 0 or None.
    """
    config, data = setup.config, setup.data
    history, quality, expected = ([], None, None) if state is None else (state.history, state.quality, state.expected_positives)
    training = setup if isinstance(setup, TrainingSetup) else None
    ranking, check = test.ranking if test else None, setup.source.teacher_check
    warning = baselines.warning() if baselines and training else None
    unknown = dict.fromkeys(("precision", "recall", "accumulated_precision", "accumulated_recall"))
    return {
        "method": config.method.name,
        "recipe": config.recipe,
        "protocol": config.run.protocol,
        "seed": config.run.seed,
        "epochs": len(history),
        "best_epoch": best_epoch(history) if history else 0,
        "mAP": ranking.mAP if ranking else None,
        "mAP_present": ranking.mAP_present if ranking else None,
        "per_class_AP": ranking.per_class_AP if ranking else None,
        "val_mAP": val.ranking.mAP,
        "val_mAP_present": val.ranking.mAP_present,
        "labels": label_summary(test) if test else None,
        "labels_on_val": {
            "basis": val.basis,
            "labels_per_image": labels_per_image(expected, thresholds),
            **label_summary(val),
        },
        "baselines": baselines.as_json() if baselines else None,
        "teacher_check": check.as_json() if check else None,
        "warnings": [*([warning] if warning else []), *(check.warnings() if check else [])],
        "val_labels": "complete" if data.val.truth is not None else "incomplete",
        "pseudo_labels": quality.figures() if quality is not None else unknown,
        "expected_positives": expected,
        "answers": _answers(data),
        "chosen": setup.source.chosen(),
        "images_per_second": float(np.median([line["images_per_second"] for line in history])) if history else None,
        "images": {s.name: len(s.names) for s in (data.train, data.val, data.test) if s is not None},
        "classes": list(data.classes),
        "data": str(data.place.resolve()),
        "fingerprint": data_fingerprint(data) if state is None else state.fingerprint,
        "mode": config.train.mode if training else None,
        "backbone": config.model.backbone if training and config.model.features is None else None,
        "features": config.model.features if training else None,
        "origin": training.origin if training else None,
        "teacher": config.teacher.name if config.method.source.asks_teacher else None,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("aevlp", "torch", "transformers", "accelerate")},
        },
    }


def _answers(data: Dataset) -> dict[str, int] | None:
    """Return how many labels of the training and validation images people have accepted and rejected; None: none."""
    accepted = rejected = complete = 0
    for split in (data.train, data.val):
        values = [split.observed[row, column] for row, column in split.annotations.answers if column != WHOLE_IMAGE]
        accepted, rejected = accepted + values.count(1), rejected + values.count(-1)
        complete += len(split.annotations.complete)
    return {"accepted": accepted, "rejected": rejected, "complete": complete} if accepted or rejected or complete else None


def label_summary(metrics: Metrics) -> dict[str, float]:
    """Return the metrics of the labels above the thresholds, in percent, and the macro F1 at 0.5 beside them."""
    figures = {name: getattr(metrics.labels, name) for name in ("macro_F1", "micro_F1", "precision", "recall")}
    return {**figures, "macro_F1_at_half": metrics.at_half.macro_F1}


def labels_per_image(expected: float | None, thresholds: Thresholds) -> float:
    """Return the number of labels per image that an estimate rests on: the expected one or, without it, the thresholds' own."""
    return thresholds.positives if expected is None else expected


def evaluation_table(
    found: npt.NDArray[np.float32],
    split: Split,
    classes: Sequence[str],
    thresholds: Thresholds | None,
    expected_positives: float | None,
) -> Table:
    """Return a table of the metrics of probabilities [N, C] of a split; with thresholds, F1 too.

    Where the labels are incomplete, F1 is an estimate for images with `expected_positives` labels each; None: as many as the
    thresholds were fitted for.
    """
    is_complete = split.truth is not None
    given = found >= 0.5 if thresholds is None else thresholds.above(found)
    positives = 1.0 if thresholds is None else labels_per_image(expected_positives, thresholds)
    metrics = evaluate(found, split, classes, given, positives)
    ranking = metrics.ranking
    title = f"{split.name}: mAP {ranking.mAP:.2f}{'' if is_complete else ' of observed labels (a lower bound)'}"
    columns = {"AP" if is_complete else "AP, observed only": [_shown(value) for value in ranking.per_class_AP.values()]}
    if thresholds is not None:
        title += f", macro F1 {metrics.labels.macro_F1:.2f} ({metrics.at_half.macro_F1:.2f} at 0.5), {metrics.basis}"
        title += "" if is_complete else f" for {positives:.2f} labels per image"
        columns["threshold" if thresholds.basis == "complete" else "threshold, estimated"] = [
            f"{value:.3f}" for value in thresholds.classes.values()
        ]
        columns[f"F1, {metrics.basis}"] = [_shown(value) for value in metrics.labels.per_class_F1]
        columns["F1 at 0.5"] = [_shown(value) for value in metrics.at_half.per_class_F1]
    table = Table(
        "class",
        "positives" if is_complete else "observed positives",
        *columns,
        title=title,
        title_justify="left",
        caption_justify="left",
    )
    captions = []
    if ranking.mAP != ranking.mAP_present:
        captions.append(f"mAP {ranking.mAP_present:.2f} over the classes that have a positive")
    if not is_complete:
        captions.append(OBSERVED_ONLY)
    table.caption = "\n".join(captions) or None
    for name, count, *cells in zip(classes, (split.evaluation_labels == 1).sum(0), *columns.values(), strict=True):
        table.add_row(escape(name), str(count), *cells)
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def write_probabilities(path: Path, names: Sequence[str], classes: Sequence[str], found: npt.NDArray[np.float32]) -> None:
    """Write a CSV with a row per image and a column per class."""
    refuse_formulas(classes, str(path))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["image", *classes])
    writer.writerows([path_cell(name), *(f"{p:.7g}" for p in row)] for name, row in zip(names, found.tolist(), strict=True))
    write_text(path, text.getvalue())
