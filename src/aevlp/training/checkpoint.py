"""The checkpoint of a run: the state of the training after its last finished epoch."""

from pathlib import Path
from typing import Any

import torch

from aevlp.core.files import whole_file


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint, atomically."""
    with whole_file(path) as file:
        torch.save(state, file)


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """Return the checkpoint; None before the first epoch is finished."""
    if not path.is_file():
        return None
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state
