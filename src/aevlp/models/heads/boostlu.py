"""BoostLU: places that speak for a class count more than places that speak against it.

| symbol | argument | meaning                                                          |
| ------ | -------- | ---------------------------------------------------------------- |
| alpha  | factor   | what the positive values of a class map are multiplied by        |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.citations import BOOST
from aevlp.core.options import Above, Options
from aevlp.models.heads.registry import register_head

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class BoostOptions(Options, section="boostlu"):
    """Options of the boosted class map."""

    factor: Annotated[float, Above(0)] = 5.0
    """What positive values of the class map are multiplied by, in training and in evaluation (1: plain average pooling)."""


@register_head(
    "boostlu",
    BoostOptions,
    sees_map=True,
    paper=BOOST,
)
def boostlu(width: int, classes: int, options: BoostOptions) -> nn.Module:
    """A module from the last feature map, D = width, to logits [N, C]."""
    from aevlp.models.head_layers import BoostedMap

    return BoostedMap(width, classes, options.factor)
