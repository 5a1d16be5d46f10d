"""Asymmetric loss: unknown labels count as negatives, the less the easier they are, and not at all when nearly certain.

| symbol  | argument | meaning                                                  |
| ------- | -------- | -------------------------------------------------------- |
| gamma_- | gamma    | how little an easy negative counts                       |
| m       | clip     | probability up to which an unknown label costs nothing   |
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Annotated

from aevlp.core.options import AtLeast, Between
from aevlp.losses.cells import by_label, log_probabilities
from aevlp.losses.registry import LossOptions, register_loss

if TYPE_CHECKING:
    from torch import Tensor

NOTHING = 1e-30  # a probability as good as 0: for gamma below 1 the slope of pm^gamma at 0 itself is infinite


@dataclass(frozen=True)
class AslOptions(LossOptions):
    """Options of the asymmetric loss."""

    gamma: Annotated[float, AtLeast(0)] = 4.0
    """Exponent of the weight of an unknown label: 0 is cross-entropy; the higher, the less an easy negative counts."""
    clip: Annotated[float, Between(0, 1, excludes_high=True)] = 0.05
    """Probability up to which an unknown label costs nothing."""


@register_loss("asl", AslOptions, paper="Ridnik et al., Asymmetric Loss for Multi-Label Classification, ICCV 2021")
def asl(logits: Tensor, observed: Tensor, *, gamma: float, clip: float) -> Tensor:
    """Mean over all cells; logits, observed [N, C], observed in {1, 0, -1}.

    observed 1: -log p; -1: -log(1 - p); 0: -pm^gamma log(1 - pm) with pm = max(p - clip, 0). Gradients flow through the weight.
    """
    log_p, log_not_p = log_probabilities(logits)
    pm = (log_p.exp() - clip).clamp(min=NOTHING)
    # log(1 - pm) = log((1 - p) + clip) without leaving the logs: 1 - p itself may be too small for float32.
    log_not_pm = log_not_p.logaddexp(log_not_p.new_tensor(log(clip))).clamp(max=0) if clip > 0 else log_not_p
    return by_label(observed, -log_p, -pm.pow(gamma) * log_not_pm, -log_not_p).mean()
