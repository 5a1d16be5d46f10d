"""BoostLU: positions with evidence for a class count more than positions with evidence against it.

| symbol | argument | meaning                                          |
| ------ | -------- | ------------------------------------------------ |
| alpha  | factor   | multiplier of the positive values of a class map |
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
    """Multiplier of the positive values of the class map, in training and in evaluation (1: plain average pooling)."""


@register_head("boostlu", BoostOptions, sees_map=True, paper=BOOST)
def boostlu(width: int, classes: int, options: BoostOptions) -> nn.Module:
    """Return a module that turns the last feature map, D = width, into logits [N, C]."""
    from aevlp.models.head_layers import BoostedMap

    return BoostedMap(width, classes, options.factor)
