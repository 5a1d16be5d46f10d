"""Hill loss: unknown labels count as negatives, but less and less once they look positive.

| symbol | argument | meaning                                                           |
| ------ | -------- | ----------------------------------------------------------------- |
| lambda | slope    | an unknown label costs (slope - p) p^2                            |
| m      | margin   | subtracted from the logit of a positive                           |
| gamma  | gamma    | how little an easy positive counts                                |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.options import AtLeast
from aevlp.losses.cells import by_label, log_probabilities
from aevlp.losses.registry import LossOptions, register_loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class HillOptions(LossOptions):
    """Options of the Hill loss."""

    slope: Annotated[float, AtLeast(1)] = 1.5
    """Probability at which the cost of an unknown label would be 0 again; the cost peaks at 2/3 of it."""
    margin: Annotated[float, AtLeast(0)] = 1.0
    """Subtracted from the logit of a confirmed positive."""
    gamma: Annotated[float, AtLeast(0)] = 2.0
    """Exponent of the focal weight of a confirmed positive: 0 is cross-entropy."""


@register_loss(
    "hill",
    HillOptions,
    paper="Zhang et al., Simple and Robust Loss Design for Multi-Label Learning with Missing Labels, arXiv 2021",
)
def hill(logits: Tensor, observed: Tensor, *, slope: float, margin: float, gamma: float) -> Tensor:
    """Mean over all cells, logits and observed [N, C], observed in {1, 0, -1}; gradients flow through the weights.

    observed 1: (1 - p')^gamma * -log p' with p' = sigmoid(z - margin); 0: (slope - p) p^2; -1: -log(1 - p).
    """
    log_p, log_not_p = log_probabilities(logits)
    log_margin, log_not_margin = log_probabilities(logits.to(log_p.dtype) - margin)
    positive = (gamma * log_not_margin).exp() * -log_margin
    p = log_p.exp()
    return by_label(observed, positive, (slope - p) * p.square(), -log_not_p).mean()
