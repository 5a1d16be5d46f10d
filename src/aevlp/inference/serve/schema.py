"""The JSON that the service answers with."""

from dataclasses import dataclass
from typing import Any

from aevlp import __version__
from aevlp.config.recipe import read_recipe
from aevlp.inference.model_location import ModelLocation
from aevlp.inference.predictor import TrainedModel
from aevlp.inference.serve.uploads import Limits
from aevlp.training.run_folder import RunFolder

FIGURES = ("mAP", "mAP_present", "val_mAP", "labels", "epochs", "best_epoch", "seed")


@dataclass(frozen=True)
class ImagePrediction:
    """The prediction for one image."""

    name: str
    labels: list[str] | None
    """Labels that reach their thresholds, the surest first; null: the model has no thresholds."""
    probabilities: dict[str, float]
    """By class name, in the order of the classes."""


@dataclass(frozen=True)
class UnreadableImage:
    """An image that could not be read, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class PredictResponse:
    """The predictions for the images of a request, in their order."""

    images: list[ImagePrediction]
    errors: list[UnreadableImage]


@dataclass(frozen=True)
class PlattCalibration:
    """A calibrated probability is sigmoid(slope * logit(p) + offset)."""

    slope: float
    offset: float


@dataclass(frozen=True)
class ModelInfo:
    """A description of the model."""

    name: str
    method: str | None
    """Null for a model that was copied out of its run."""
    classes: list[str]
    thresholds: dict[str, float] | None
    calibration: PlattCalibration | None
    image_size: int
    """Images are resized to this many pixels in width and height."""
    figures: dict[str, Any] | None
    """Figures from the run's result.json: mAP and F1 in percent, on the test images."""
    limits: Limits
    version: str
    """Version of aevlp."""


def model_info(location: ModelLocation, model: TrainedModel, limits: Limits) -> ModelInfo:
    """Describe a model from its own files and, if it lies in a run, the run's. No path of this machine is included."""
    run = RunFolder(location.model.resolve().parent)
    is_run = run.config.is_file()
    result = (run.read_result() or {}) if is_run else {}
    thresholds = model.thresholds
    calibration = thresholds.calibration if thresholds is not None else None
    return ModelInfo(
        name=run.path.name if is_run else location.model.resolve().name,
        method=(result.get("method") or read_recipe(run.config).get("method")) if is_run else None,
        classes=model.classes,
        thresholds=dict(thresholds.classes) if thresholds is not None else None,
        calibration=None if calibration is None else PlattCalibration(calibration.slope, calibration.offset),
        image_size=model.image_size,
        figures={name: result[name] for name in FIGURES if name in result} or None,
        limits=limits,
        version=__version__,
    )
