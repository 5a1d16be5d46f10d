"""Evidence: the data behind a run's page that is not in `result.json`, kept in one file of bounded size (`evidence.npz`).

This module imports no torch, so that `aevlp report` starts at once; `collect` computes the evidence.
"""

import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt

from aevlp.core.errors import UserError, one_line
from aevlp.core.files import whole_file
from aevlp.core.json_types import from_json
from aevlp.training.calibration import Reliability

FORMAT = 1
GRIDS = ("mistaken", "missed", "found", "teacher")  # the fields of `Evidence` that are an `ExampleGrid`

ARRAYS: dict[str, tuple[type, tuple[str, ...]]] = {
    "thresholds": (np.float64, ("C",)),
    "ap": (np.float64, ("C",)),
    "support": (np.int64, ("C",)),
    "given": (np.int64, ("C",)),
    "hits": (np.int64, ("C",)),
    "observed": (np.int64, ("C",)),
    "histograms": (np.int64, ("groups", "sides", "bins")),
}
"""The fields that are arrays: type and axes."""

Counts = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """The precision-recall curve of a class."""

    label: str
    ap: float  # percent
    points: tuple[tuple[float, float], ...]  # recall, precision; recall rises
    chosen: tuple[float, float] | None  # recall and precision at the threshold; None: no image reaches it


@dataclass(frozen=True)
class Tile:
    """The teacher's scores of one view."""

    box: tuple[float, float, float, float]  # left, top, right, bottom, as shares of the image's width and height
    top: str  # the class with the highest score
    top_score: float
    score: float  # of the example's label


@dataclass(frozen=True)
class Example:
    """An image and one label that it has or is predicted to have."""

    path: str  # absolute
    name: str
    label: str
    probability: float
    threshold: float
    truth: bool | None  # None: not known
    others: tuple[str, ...]  # the other labels that the image is known to have
    pseudo: int | None = None  # the teacher's pseudo-label: 1 or -1
    tiles: tuple[Tile, ...] = ()  # the whole image, then its tiles


@dataclass(frozen=True)
class ExampleGrid:
    """Examples, and the number of labels that they were chosen from."""

    examples: tuple[Example, ...] = ()
    total: int = 0
    agreed: int | None = None  # how many of `total` the truth agrees with; None: not known
    reason: str = ""  # why there is nothing to show


@dataclass(frozen=True)
class Evidence:
    """The data of a page beside the metrics; C classes, G groups of them (all; the best and the worst third)."""

    classes: tuple[str, ...]
    split: str  # that the model is evaluated on
    is_complete: bool  # whether the labels of that split are
    images: int  # in that split
    sample: int  # training images that were predicted again
    observed_per_image: float  # positives, in training
    thresholds: Values  # [C], at the end of training
    ap: Values  # [C], percent; NaN: no positive in the split
    support: Counts  # [C]: positives in the split
    given: Counts  # [C]: predicted labels in the split
    hits: Counts  # [C]: positives among those
    observed: Counts  # [C]: positives in training
    histograms: Counts  # [G, 2, bins]: positives and others by probability
    best: tuple[Curve, ...]
    worst: tuple[Curve, ...]
    reliability: tuple[Reliability, Reliability | None] | None  # before and after calibration; None: not known
    mistaken: ExampleGrid  # false positives
    missed: ExampleGrid  # false negatives
    found: ExampleGrid  # predicted labels of training images that were not observed
    teacher: ExampleGrid  # pseudo-labels


def write_evidence(file: Path, evidence: Evidence) -> None:
    """Write one .npz atomically: arrays as they are, all else as JSON text."""
    values = asdict(evidence)
    arrays = {name: values.pop(name) for name, value in list(values.items()) if isinstance(value, np.ndarray)}
    for name in GRIDS:
        values[name]["exhibits"] = values[name].pop("examples")  # the key of format 1
    text = json.dumps({"format": FORMAT, **values}).encode()
    content = io.BytesIO()  # numpy does not report a full disk when it writes to a file itself
    np.savez_compressed(content, text=np.frombuffer(text, np.uint8), **arrays)
    with whole_file(file) as out:
        out.write(content.getbuffer())


def read_evidence(file: Path) -> Evidence:
    """Read a file of `write_evidence`. A damaged or newer one is a UserError."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        values = json.loads(arrays.pop("text").tobytes())
        number = values.pop("format")
        if number <= FORMAT:
            return _restored(values, arrays)
    except Exception as error:  # numpy raises errors of many kinds for a damaged file
        raise UserError(f"{file}: not the evidence of a training ({one_line(error)}); train the run again") from None
    raise UserError(f"{file}: written by a newer aevlp (format {number}, this one reads {FORMAT}); update aevlp")


def _restored(values: dict[str, Any], arrays: dict[str, Any]) -> Evidence:
    """Return the evidence of a file; a ValueError says what does not fit."""
    for name in GRIDS:
        values[name]["examples"] = values[name].pop("exhibits")
    kinds = {name: kind for name, kind in get_type_hints(Evidence).items() if name not in ARRAYS}
    if values.keys() != kinds.keys() or arrays.keys() != ARRAYS.keys():
        raise ValueError("parts of it are missing, or are those of something else")
    restored = {name: from_json(value, kinds[name], name) for name, value in values.items()}
    sizes = {"C": len(restored["classes"])}
    for name, (kind, axes) in ARRAYS.items():
        array = arrays[name]
        expected = [sizes.setdefault(axis, size) for axis, size in zip(axes, array.shape, strict=False)]
        if array.dtype != kind or array.ndim != len(axes) or list(array.shape) != expected:
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)}")
    return Evidence(**arrays, **restored)
