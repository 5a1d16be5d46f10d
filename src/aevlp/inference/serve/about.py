"""What a service tells of its model: from the model itself and, where it lies in its run, from the run's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aevlp import __version__
from aevlp.config.recipe import read_recipe
from aevlp.inference.serve.answers import About, Correction, Limits
from aevlp.training.run_folder import RunFolder

if TYPE_CHECKING:
    from aevlp.inference.model_location import ModelLocation
    from aevlp.inference.predictor import TrainedModel

FIGURES = ("mAP", "mAP_present", "val_mAP", "labels", "epochs", "best_epoch", "seed")


def about(places: ModelLocation, model: TrainedModel, limits: Limits) -> About:
    """What there is to say of a model of images. No path of this machine is in it."""
    run = RunFolder(places.model.resolve().parent)
    is_run = run.config.is_file()
    result = (run.read_result() or {}) if is_run else {}
    thresholds = model.thresholds
    calibration = thresholds.calibration if thresholds is not None else None
    return About(
        name=run.path.name if is_run else places.model.resolve().name,
        method=(result.get("method") or read_recipe(run.config).get("method")) if is_run else None,
        classes=model.classes,
        thresholds=dict(thresholds.classes) if thresholds is not None else None,
        calibration=None if calibration is None else Correction(calibration.slope, calibration.offset),
        image_size=model.image_size,
        figures={name: result[name] for name in FIGURES if name in result} or None,
        limits=limits,
        version=__version__,
    )
