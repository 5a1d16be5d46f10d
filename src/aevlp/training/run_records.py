"""The content of a run's `result.json` and `metrics.jsonl`, as types that the files are checked against when they are read."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from aevlp.core.errors import UserError, one_line
from aevlp.core.files import json_object
from aevlp.core.json_types import from_json
from aevlp.core.options import Above, AtLeast

Figures = dict[str, float | None]


class Epoch(TypedDict):
    """A line of `metrics.jsonl`."""

    epoch: Annotated[int, AtLeast(1)]
    loss: float
    val_mAP: float
    val_mAP_present: NotRequired[float]
    pseudo_labels: Figures | None
    images_per_second: Annotated[float, Above(0)]


class Result(TypedDict, total=False):
    """The content of `result.json` that commands use; see `aevlp.training.results` for what it means."""

    method: str
    recipe: str
    protocol: str
    seed: int
    epochs: Annotated[int, AtLeast(0)]
    best_epoch: Annotated[int, AtLeast(0)]
    mAP: float | None
    mAP_present: float | None
    per_class_AP: Figures | None
    val_mAP: float
    val_mAP_present: float
    labels: Figures | None
    labels_on_val: dict[str, Any] | None
    baselines: dict[str, Any] | None
    teacher_check: dict[str, Any] | None
    warnings: list[str] | None
    val_labels: Literal["complete", "incomplete"]
    pseudo_labels: Figures | None
    expected_positives: Annotated[float, Above(0)] | None
    answers: dict[str, int] | None
    chosen: dict[str, Any] | None
    images_per_second: float | None
    images: dict[str, int]
    classes: list[str]
    data: str
    fingerprint: str
    mode: str | None
    backbone: str | None
    features: str | None
    origin: str | None
    teacher: str | None
    versions: dict[str, str] | None


SINCE_0_6 = {"labels_on_val", "baselines", "teacher_check", "warnings", "answers"}
WHOLE = Result.__annotations__.keys() - SINCE_0_6
"""The keys of `result.json` that every version has written."""


def read_result_file(file: Path) -> dict[str, Any]:
    """Return the content of a `result.json`, whose keys may be missing: runs of older versions lack some."""
    try:
        return dict(from_json(json_object(file), Result))
    except ValueError as error:
        raise UserError(f"{file}: damaged ({error}); remove it, and --resume makes it again") from None


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a `metrics.jsonl`."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        found: list[dict[str, Any]] = from_json([json.loads(line) for line in lines], list[Epoch])
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: damaged ({one_line(error)}); train the run again") from None
    return found
