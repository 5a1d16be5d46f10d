"""Entropy maximisation with asymmetric pseudo-labels: `em` that also learns from soft negatives.

| symbol | argument      | meaning                                                              |
| ------ | ------------- | -------------------------------------------------------------------- |
| alpha  | alpha         | weight of the entropy reward                                         |
| beta   | beta          | weight of a soft negative                                            |
| s      | soft_negative | the p a cell had when it became a soft negative; NaN or below 0: none |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.citations import UNKNOWN
from aevlp.core.options import AtLeast
from aevlp.losses.cells import by_label, entropy, log_probabilities
from aevlp.losses.em import EmOptions
from aevlp.losses.registry import register_loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class EmAplOptions(EmOptions):
    """Options of entropy maximisation with asymmetric pseudo-labels."""

    beta: Annotated[float, AtLeast(0)] = 0.02
    """Weight of a soft negative (VOC 0.02; COCO 0.9; NUS 0.2; CUB 0.4)."""


@register_loss("em-apl", EmAplOptions, reads="soft_negative", paper=UNKNOWN)
def em_apl(logits: Tensor, observed: Tensor, soft_negative: Tensor, *, alpha: float, beta: float) -> Tensor:
    """Mean over all cells; logits, observed, soft_negative [N, C], soft_negative in [0, 1], NaN or below 0 where there is none.

    observed 1: -log p; -1: -log(1 - p); 0 with a soft negative s: beta (-s log p - (1 - s) log(1 - p)), else -alpha H(p).
    """
    log_p, log_not_p = log_probabilities(logits)
    is_soft = soft_negative >= 0  # false for NaN too
    s = soft_negative.where(is_soft, 0).to(log_p.dtype)  # a NaN in an unused branch would still reach the gradient
    soft = -beta * (s * log_p + (1 - s) * log_not_p)
    unknown = soft.where(is_soft, -alpha * entropy(log_p, log_not_p))
    return by_label(observed, -log_p, unknown, -log_not_p).mean()
