"""What predictions look like: a table, a line of JSON each, or a listing for people."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aevlp.core.errors import UserError

SHOWN = 5  # labels of an image, where no threshold says which


@dataclass(frozen=True)
class Prediction:
    """What is said of one image."""

    image: str
    labels: list[str] | None
    """Those that reach their thresholds, the surest first; None: there are no thresholds."""
    probabilities: list[float]
    """In the order of the classes."""


@dataclass(frozen=True)
class Format:
    """How predictions are written: what stands at the beginning, and the text of each, with its line's end."""

    head: str
    text: Callable[[Prediction], str]


def format_of(out: Path | None, named: str | None) -> str:
    """The name of the format that is asked for by name, or by the file's suffix; a listing if there is no file."""
    if named is not None or out is None:
        return named or "text"
    by_suffix = out.suffix.lower().removeprefix(".")
    if by_suffix not in ("csv", "jsonl"):
        raise UserError(f"--out {out}: a name that ends in .csv or .jsonl says what to write; or say it with --format")
    return by_suffix


def as_csv(classes: Sequence[str], *, has_labels: bool) -> Format:
    """A table that aevlp reads as an image set: `image`, `labels` (if thresholds give any), a column per class."""
    from aevlp.data.readers.table import IMAGE, NEGATIVES, POSITIVES, SPLIT

    for name in classes:
        if name.lower() in (*IMAGE, *POSITIVES, *NEGATIVES, *SPLIT) or any(mark in name for mark in ";|"):
            raise UserError(f"--format csv: the class '{name}' would be misread in a table; use --format jsonl")

    def line(cells: Sequence[str]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        return text.getvalue()

    def row(prediction: Prediction) -> str:
        labels = [] if prediction.labels is None else [";".join(prediction.labels)]
        return line([prediction.image, *labels, *map(_digits, prediction.probabilities)])

    return Format(line(["image", *(["labels"] if has_labels else []), *classes]), row)


def as_jsonl(classes: Sequence[str], *, has_labels: bool) -> Format:
    """An object per line: `image`, `labels` (null where there are no thresholds), `probabilities` by class name."""

    def row(prediction: Prediction) -> str:
        numbers = (float(_digits(p)) for p in prediction.probabilities)
        record = {
            "image": prediction.image,
            "labels": prediction.labels,
            "probabilities": dict(zip(classes, numbers, strict=True)),
        }
        text = json.dumps(record, ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:  # a file name need not be text: escaped, it stays valid and the same
            text = json.dumps(record)
        return text + "\n"

    return Format("", row)


def as_text(classes: Sequence[str], *, has_labels: bool) -> Format:
    """A line per image with its labels and their probabilities, the surest first; without thresholds the five surest."""
    column = {name: c for c, name in enumerate(classes)}

    def row(prediction: Prediction) -> str:
        p = prediction.probabilities
        surest = sorted(classes, key=lambda name: -p[column[name]])
        shown = surest[:SHOWN] if prediction.labels is None else prediction.labels
        said = ", ".join(f"{name} {p[column[name]]:.2f}" for name in shown)
        return f"{prediction.image}: {said or f'no label (the surest is {surest[0]} {p[column[surest[0]]]:.2f})'}\n"

    return Format("", row)


def _digits(probability: float) -> str:
    return f"{probability:.7g}"  # more would be noise in a float32


FORMATS: dict[str, Callable[..., Format]] = {"csv": as_csv, "jsonl": as_jsonl, "text": as_text}
