"""What a run reports: a line per epoch, the figures at the end."""

from __future__ import annotations

import csv
import io
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.markup import escape
from rich.table import Table

from aevlp.config.config import Config
from aevlp.core.files import write_text
from aevlp.core.progress import duration
from aevlp.damp.quality import Quality
from aevlp.data.splits import Dataset, Split, data_fingerprint
from aevlp.training.evaluate import Judged, judge
from aevlp.training.thresholds import Thresholds


def best_epoch(history: Sequence[dict[str, Any]]) -> int:
    """The epoch with the best validation mAP; the first of equals."""
    values = [line["val_mAP"] for line in history]
    return values.index(max(values)) + 1


def describe_epoch(line: dict[str, Any], epochs: int, seconds: float, *, is_best: bool) -> str:
    """An epoch in one line."""
    text = f"epoch {line['epoch']} of {epochs}: loss {line['loss']:.4f}, val mAP {line['val_mAP']:.2f}"
    if line["pseudo_labels"] is not None:
        figures = line["pseudo_labels"]
        shown = [f"{100 * figures[k]:.1f}" if figures[k] is not None else "-" for k in ("epoch_precision", "epoch_recall")]
        text += f", pseudo-labels precision {shown[0]} recall {shown[1]}"
    return f"{text}, {line['images_per_second']:.0f} images/s, {duration(seconds)}{', best so far' if is_best else ''}"


@dataclass(frozen=True)
class Record:
    """What a training has noted on its way."""

    history: Sequence[dict[str, Any]]  # a line per epoch
    quality: Quality | None
    expected_positives: float | None
    chosen: dict[str, Any]  # options that the source has chosen itself
    origin: str  # fingerprint of the backbone's weights as they were, or of the user's features


def summarize(config: Config, data: Dataset, record: Record, judged: Judged | None) -> dict[str, Any]:
    """The content of `result.json`; mAP and F1 in percent, pseudo-label figures 0 to 1; `judged` on the test split."""
    history, quality = record.history, record.quality
    tested = judged.order if judged else None
    best = best_epoch(history)
    unknown = dict.fromkeys(("precision", "recall", "accumulated_precision", "accumulated_recall"))
    return {
        "method": config.method.name,
        "recipe": config.recipe,
        "protocol": config.run.protocol,
        "seed": config.run.seed,
        "epochs": len(history),
        "best_epoch": best,
        "mAP": tested.mAP if tested else None,
        "mAP_present": tested.mAP_present if tested else None,
        "per_class_AP": tested.per_class_AP if tested else None,
        "val_mAP": history[best - 1]["val_mAP"],
        "val_mAP_present": history[best - 1]["val_mAP_present"],
        "labels": label_summary(judged),
        "val_labels": "complete" if data.val.truth is not None else "incomplete",
        "pseudo_labels": quality.figures() if quality is not None else unknown,
        "expected_positives": record.expected_positives,
        "chosen": record.chosen,
        "images_per_second": float(np.median([line["images_per_second"] for line in history])),
        "images": {s.name: len(s.names) for s in (data.train, data.val, data.test) if s is not None},
        "classes": list(data.classes),
        "data": str(data.train.root.resolve()),
        "fingerprint": data_fingerprint(data),
        "mode": config.train.mode,
        "backbone": config.model.backbone if config.model.features is None else None,
        "features": config.model.features,
        "origin": record.origin,
        "teacher": config.teacher.name if config.method.source.asks_teacher else None,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("aevlp", "torch", "transformers", "accelerate")},
        },
    }


def label_summary(judged: Judged | None) -> dict[str, float] | None:
    """The figures of labels given by the thresholds, in percent, with the macro F1 of 0.5 beside them."""
    if judged is None:
        return None
    figures = {name: getattr(judged.labels, name) for name in ("macro_F1", "micro_F1", "precision", "recall")}
    return {**figures, "macro_F1_at_half": judged.at_half.macro_F1}


def evaluation_table(
    found: npt.NDArray[np.float32], split: Split, classes: Sequence[str], thresholds: Thresholds | None
) -> Table:
    """The figures of probabilities [N, C] of a split, for people to read; F1 with the thresholds, if there are any."""
    bound = "" if split.truth is not None else " of observed labels (a lower bound)"
    judged = judge(found, split.judged_by, classes, found >= 0.5 if thresholds is None else thresholds.above(found))
    order = judged.order
    title = f"{split.name}: mAP {order.mAP:.2f}{bound}"
    columns = {"AP": [_shown(value) for value in order.per_class_AP.values()]}
    if thresholds is not None:
        title += f", macro F1 {judged.labels.macro_F1:.2f} ({judged.at_half.macro_F1:.2f} at 0.5)"
        columns["threshold"] = [f"{value:.3f}" for value in thresholds.classes.values()]
        columns["F1"] = [_shown(value) for value in judged.labels.per_class_F1]
    table = Table("class", "positives", *columns, title=title, title_justify="left")
    if order.mAP != order.mAP_present:
        table.caption = f"mAP {order.mAP_present:.2f} over the classes that have a positive"
    for name, positives, *cells in zip(classes, (split.judged_by == 1).sum(0), *columns.values(), strict=True):
        table.add_row(escape(name), str(positives), *cells)
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def write_probabilities(path: Path, names: Sequence[str], classes: Sequence[str], found: npt.NDArray[np.float32]) -> None:
    """A CSV with a row per image and a column per class."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["image", *classes])
    writer.writerows([name, *(f"{p:.7g}" for p in row)] for name, row in zip(names, found.tolist(), strict=True))
    write_text(path, text.getvalue())


class Tracker:
    """TensorBoard, fed with the lines of `metrics.jsonl`."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def add(self, line: dict[str, Any]) -> None:
        """Takes in an epoch."""
        figures = {**line, **{f"pseudo_labels/{k}": v for k, v in (line["pseudo_labels"] or {}).items()}}
        for name, value in figures.items():
            if isinstance(value, float):
                self.writer.add_scalar(name, value, line["epoch"])

    def close(self) -> None:
        """Writes what is pending."""
        self.writer.close()


def tracker_for(run: Path) -> Tracker | None:
    """A tracker for the run folder, if the extra `tracking` is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return Tracker(SummaryWriter(str(run / "tensorboard")))
