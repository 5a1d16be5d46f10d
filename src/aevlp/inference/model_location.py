"""The location of a trained model: in a run folder, in a model folder that was copied out of one, or on the hub."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.core.remote import HUB, is_hub_model
from aevlp.training.run_folder import RunFolder, open_run


@dataclass(frozen=True)
class ModelLocation:
    """The files of a trained model."""

    given: Path
    """The path that the user named."""
    model: Path
    """The model's folder."""
    thresholds: Path | None
    """None: the model has none."""


def locate_model(path: Path) -> ModelLocation:
    """Find the model in a run folder, in a model folder or on the hub; refuse any other path, and one made by a newer version."""
    if is_hub_model(path):
        from aevlp.models.hub import fetch_model

        model = fetch_model(str(path).removeprefix(HUB))
        return ModelLocation(path, model, thresholds if (thresholds := model / "thresholds.json").is_file() else None)
    if path.name == RunFolder(path).model.name and RunFolder(path.parent).config.is_file():
        run, model = open_run(path.parent), path
    elif (path / "config.json").is_file() and not RunFolder(path).config.is_file():
        run, model = RunFolder(path), path
    else:
        run = open_run(path)
        run.require_model()
        model = run.model
    # The run's own thresholds are the newest; the copy in the model's folder is for a model that is moved.
    files = dict.fromkeys((run.thresholds, model / run.thresholds.name))
    return ModelLocation(path, model, next((file for file in files if file.is_file()), None))


def require_same_classes(in_data: Sequence[str], in_run: Sequence[str], data: Path, run: Path) -> None:
    """Refuse an image set whose classes are not the model's, in the same order."""
    if list(in_data) == list(in_run):
        return
    only_data, only_run = (", ".join(sorted(set(a) - set(b))[:5]) for a, b in ((in_data, in_run), (in_run, in_data)))
    how = f"only in DATA: {only_data or '-'}; only in RUN: {only_run or '-'}" if only_data or only_run else "another order"
    raise UserError(f"{data} and {run} have different classes ({how}); a classes.txt beside the table fixes them")
