"""Where a trained model and its thresholds lie: in a run folder, or in a model folder that was copied out of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aevlp.training.run_folder import RunFolder, open_run


@dataclass(frozen=True)
class ModelLocation:
    """The files of a trained model."""

    given: Path
    """What the user named."""
    model: Path
    """The model's folder."""
    thresholds: Path | None
    """None: there are none."""


def locate_model(path: Path) -> ModelLocation:
    """The places in a run folder, or in a model folder alone; refused if it is neither, or made by a newer version."""
    if path.name == RunFolder(path).model.name and RunFolder(path.parent).config.is_file():
        run, model = open_run(path.parent), path
    elif (path / "config.json").is_file() and not RunFolder(path).config.is_file():
        run, model = RunFolder(path), path
    else:
        run = open_run(path)
        model = run.model
    # The run's own are the newest: a copy in the model's folder goes where the model goes.
    files = dict.fromkeys((run.thresholds, model / run.thresholds.name))
    return ModelLocation(path, model, next((file for file in files if file.is_file()), None))
