"""The checkpoint of a run: the state of the training after its last finished epoch."""

from pathlib import Path
from typing import Any

import torch

from aevlp.core.files import whole_file


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint, atomically."""
    with whole_file(path) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:
            cause = error.__context__
            if cause is None or isinstance(cause, Exception):
                raise
            raise cause from None  # an interrupt, which torch covers with an error about the unfinished file


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """Return the checkpoint; None before the first epoch is finished."""
    if not path.is_file():
        return None
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state
