"""Entropy maximisation: unknown labels are pushed away from certainty.

| symbol | argument | meaning                      |
| ------ | -------- | ---------------------------- |
| alpha  | alpha    | weight of the entropy reward |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.citations import UNKNOWN
from aevlp.core.options import AtLeast
from aevlp.losses.cells import by_label, entropy, log_probabilities
from aevlp.losses.registry import LossOptions, register_loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class EmOptions(LossOptions):
    """Options of entropy maximisation."""

    alpha: Annotated[float, AtLeast(0)] = 0.2
    """Weight of the entropy reward of an unknown label (VOC 0.2; COCO, NUS 0.1; CUB 0.01)."""


@register_loss("em", EmOptions, paper=UNKNOWN)
def em(logits: Tensor, observed: Tensor, *, alpha: float) -> Tensor:
    """Mean over all cells of -log p (observed 1), -alpha H(p) (0), -log(1 - p) (-1); logits, observed [N, C].

    H(p) = -p log p - (1 - p) log(1 - p).
    """
    log_p, log_not_p = log_probabilities(logits)
    return by_label(observed, -log_p, -alpha * entropy(log_p, log_not_p), -log_not_p).mean()
