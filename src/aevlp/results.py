"""What a run reports: a line per epoch, the figures at the end."""

from __future__ import annotations

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

from aevlp.config import Config
from aevlp.damp.quality import Quality
from aevlp.data.splits import Dataset, Split
from aevlp.evaluate import Evaluation
from aevlp.files import write_text
from aevlp.progress import duration


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


def summarize(
    config: Config,
    data: Dataset,
    history: Sequence[dict[str, Any]],
    tested: Evaluation | None,
    quality: Quality | None,
    expected_positives: float | None,
) -> dict[str, Any]:
    """The content of `result.json`; mAP in percent, pseudo-label figures 0 to 1."""
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
        "val_labels": "complete" if data.val.truth is not None else "incomplete",
        "pseudo_labels": quality.figures() if quality is not None else unknown,
        "expected_positives": expected_positives,
        "images_per_second": float(np.median([line["images_per_second"] for line in history])),
        "images": {s.name: len(s.names) for s in (data.train, data.val, data.test) if s is not None},
        "classes": list(data.classes),
        "backbone": config.model.backbone,
        "teacher": config.teacher.name if config.method.source.asks_teacher else None,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("aevlp", "torch", "transformers", "accelerate")},
        },
    }


def evaluation_table(measured: Evaluation, split: Split) -> Table:
    """The figures of a split, for people to read."""
    bound = "" if split.truth is not None else " of observed labels (a lower bound)"
    table = Table("class", "positives", "AP", title=f"{split.name}: mAP {measured.mAP:.2f}{bound}", title_justify="left")
    if measured.mAP != measured.mAP_present:
        table.caption = f"{measured.mAP_present:.2f} over the classes that have a positive"
    for column, (name, value) in enumerate(measured.per_class_AP.items()):
        table.add_row(escape(name), str((split.judged_by[:, column] == 1).sum()), "-" if value is None else f"{value:.2f}")
    return table


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
