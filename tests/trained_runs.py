"""Runs as a training leaves them, made without one: a small classifier that tells the coloured images apart, with thresholds."""

import json
from pathlib import Path

import torch

from aevlp.core.files import write_json
from aevlp.models.classifier import build_classifier
from aevlp.models.model_folder import save_classifier
from aevlp.models.options import ModelOptions
from aevlp.training.calibration import Calibration, Reliability
from aevlp.training.thresholds import Thresholds, as_json
from tests.colours import COLOURS

CALIBRATION = Calibration(2.0, -1.0, Reliability(0.2, ()), Reliability(0.1, ()))
CLASSES = list(COLOURS)


def write_run(folder: Path, backbone: Path, *, above: float | None = 0.5, calibration: Calibration | None = CALIBRATION) -> Path:
    """A run whose thresholds are all `above`; None: it has none."""
    classifier = build_classifier(ModelOptions(str(backbone), 32), CLASSES, seed=0)
    with torch.no_grad():
        for parameter in classifier.head():
            parameter.mul_(20)  # far from undecided
    save_classifier(classifier, folder / "model")
    (folder / "config.yaml").write_text("method: an\n")
    write_json(folder / "result.json", {"versions": {"aevlp": "0.1.0"}})
    if above is not None:
        write_thresholds(folder / "thresholds.json", above, calibration)
    return folder


def write_thresholds(file: Path, above: float, calibration: Calibration | None = CALIBRATION) -> None:
    """Thresholds that are all the same."""
    per_class = dict.fromkeys(CLASSES, above)
    found = Thresholds("f1", None, "complete", "val", 8, 2.0, above, per_class, calibration)
    file.write_text(json.dumps(as_json(found)))
