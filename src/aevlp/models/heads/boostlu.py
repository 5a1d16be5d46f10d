"""BoostLU: places that speak for a class count more than places that speak against it.

| symbol | argument | meaning                                                          |
| ------ | -------- | ---------------------------------------------------------------- |
| alpha  | factor   | what the positive values of a class map are multiplied by        |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aevlp.core.citations import BOOST
from aevlp.core.errors import require
from aevlp.core.options import Options
from aevlp.models.heads.registry import register_head

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class BoostOptions(Options):
    """Options of the boosted class map."""

    factor: float = 5.0
    """What positive values of the class map are multiplied by, in training and in evaluation (1: plain average pooling)."""

    def __post_init__(self) -> None:
        """Checks the range."""
        require(0 < self.factor < math.inf, "boostlu.factor", "greater than 0", self.factor)


@register_head(
    "boostlu",
    BoostOptions,
    sees_map=True,
    paper=BOOST,
)
def boostlu(width: int, classes: int, options: BoostOptions) -> nn.Module:
    """A module from the last feature map, D = width, to logits [N, C]."""
    from aevlp.models.heads.layers import BoostedMap

    return BoostedMap(width, classes, options.factor)
