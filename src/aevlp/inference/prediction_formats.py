"""Formats of predictions: a table, a line of JSON each, or a listing for people."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.core.spreadsheets import path_cell, refuse_formulas
from aevlp.data.row_labels import IMAGE, NEGATIVES, POSITIVES, SPLIT

SHOWN = 5  # labels of an image in a listing without thresholds


@dataclass(frozen=True)
class Prediction:
    """The prediction for one image."""

    image: str
    labels: list[str] | None
    """Labels that reach their thresholds, the surest first; None: there are no thresholds."""
    probabilities: list[float]
    """In the order of the classes."""


@dataclass(frozen=True)
class PredictionFormat:
    """The text at the beginning of the output, and the text of each prediction, with its newline."""

    head: str
    text: Callable[[Prediction], str]


def format_name(out: Path | None, named: str | None) -> str:
    """Return `named`, or the format that the file's suffix stands for; a listing if there is no file."""
    if named is not None or out is None:
        return named or "text"
    by_suffix = out.suffix.lower().removeprefix(".")
    if by_suffix not in ("csv", "jsonl"):
        raise UserError(f"--out {out}: end the name in .csv or .jsonl, or choose a format with --format")
    return by_suffix


def as_csv(classes: Sequence[str], *, has_labels: bool) -> PredictionFormat:
    """Return the format of a table that aevlp reads as an image set: `image`, `labels` (with thresholds), a column per class."""
    for name in classes:
        if name.lower() in (*IMAGE, *POSITIVES, *NEGATIVES, *SPLIT) or any(mark in name for mark in ";|"):
            raise UserError(f"--format csv: the class '{name}' would be misread in a table; use --format jsonl")

    refuse_formulas(classes, "--format csv")

    def line(cells: Sequence[str]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue()

    def row(prediction: Prediction) -> str:
        labels = [] if prediction.labels is None else [";".join(prediction.labels)]
        return line([path_cell(prediction.image), *labels, *map(_digits, prediction.probabilities)])

    return PredictionFormat(line(["image", *(["labels"] if has_labels else []), *classes]), row)


def as_jsonl(classes: Sequence[str], *, has_labels: bool) -> PredictionFormat:
    """Return the format of an object per line: `image`, `labels` (null without thresholds), `probabilities` by class name."""

    def row(prediction: Prediction) -> str:
        numbers = {name: float(_digits(p)) for name, p in zip(classes, prediction.probabilities, strict=True)}
        record = {"image": prediction.image, "labels": prediction.labels, "probabilities": numbers}
        text = json.dumps(record, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:  # a file name that is not UTF-8: escaped, it stays valid and the same
            text = json.dumps(record)
        return text + "\n"

    return PredictionFormat("", row)


def as_text(classes: Sequence[str], *, has_labels: bool) -> PredictionFormat:
    """Return the format of a line per image: its labels with probabilities, the surest first; without thresholds the top five."""
    column = {name: c for c, name in enumerate(classes)}

    def row(prediction: Prediction) -> str:
        p = prediction.probabilities
        surest = sorted(classes, key=lambda name: -p[column[name]])
        shown = surest[:SHOWN] if prediction.labels is None else prediction.labels
        listed = ", ".join(f"{name} {p[column[name]]:.2f}" for name in shown)
        return f"{prediction.image}: {listed or f'no label (the surest is {surest[0]} {p[column[surest[0]]]:.2f})'}\n"

    return PredictionFormat("", row)


def _digits(probability: float) -> str:
    return f"{probability:.7g}"  # more would be noise in a float32


PREDICTION_FORMATS: dict[str, Callable[..., PredictionFormat]] = {"csv": as_csv, "jsonl": as_jsonl, "text": as_text}
