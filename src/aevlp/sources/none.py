"""No pseudo-labels: every one is undefined."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class NoSource:
    """Pseudo-labels that say nothing."""

    def __init__(self, images: int, classes: int) -> None:
        self.nothing = torch.zeros(images, classes, dtype=torch.int8)

    def fill(self) -> None:
        """Nothing to do."""

    def labels(self, epoch: int) -> Tensor:
        """Int8 [N, C] of zeros."""
        return self.nothing

    def state(self) -> dict[str, Any]:
        """Nothing to keep."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""
