"""The content of a run's `result.json` and `metrics.jsonl`, as types that the files are checked against when they are read."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from aevlp.core.errors import UserError, one_line
from aevlp.core.files import json_object, open_regular
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


class LabelFigures(TypedDict):
    """The metrics of labels above the thresholds, in percent."""

    macro_F1: float
    macro_F1_at_half: float
    micro_F1: NotRequired[float]
    precision: NotRequired[float]
    recall: NotRequired[float]
    basis: NotRequired[str]
    labels_per_image: NotRequired[float]


class BaselineFigures(TypedDict, total=False):
    """The mAP of the model beside chance and the teacher alone (`aevlp.training.baselines`)."""

    chance: float
    chance_at_most: float
    teacher: float | None
    beats_chance: bool
    beats_teacher: bool | None


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
    labels: LabelFigures | None
    labels_on_val: LabelFigures | None
    baselines: BaselineFigures | None
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


WHOLE = {
    *("method", "recipe", "protocol", "seed", "epochs", "best_epoch", "mAP", "mAP_present", "per_class_AP", "val_mAP"),
    *("val_mAP_present", "val_labels", "labels", "pseudo_labels", "images_per_second", "images", "classes", "data", "versions"),
}
"""The keys of `result.json` that every version has written."""


def read_result_file(file: Path) -> dict[str, Any]:
    """Return the content of a `result.json`, whose keys may be missing: runs of older versions lack some."""
    try:
        found: dict[str, Any] = from_json(json_object(file), Result)
        if found.get("mAP") is not None and found.get("mAP_present", 0.0) is None:
            raise ValueError("mAP_present must be a number, as mAP is")
        return found
    except ValueError as error:
        raise UserError(f"{file}: damaged ({error}); remove it, and --resume makes it again") from None


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a `metrics.jsonl`."""
    try:
        with open_regular(file) as stream:
            lines = stream.read().decode().splitlines()
        found: list[dict[str, Any]] = from_json([json.loads(line) for line in lines], list[Epoch])
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: damaged ({one_line(error)}); train the run again") from None
    return found
