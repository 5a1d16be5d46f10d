"""Single-positive learning with label enhancement: unknown labels are softened by what their neighbours suggest.

| symbol | argument           | meaning                                                               |
| ------ | ------------------ | --------------------------------------------------------------------- |
| d      | soft               | the enhanced labels                                                   |
| mu     | mu                 | how far they are believed                                             |
| rate   | rate               | weight of an unknown label                                            |
| m      | expected_positives | positives an image is expected to have; p0 = (m - 1) / (C - 1)        |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.citations import ENHANCEMENT
from aevlp.core.options import AtLeast, Between
from aevlp.losses.cells import by_label, log_probabilities, prior
from aevlp.losses.registry import LossOptions, register_loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SmileOptions(LossOptions):
    """Options of the loss of label enhancement."""

    mu: Annotated[float, Between(0, 1)] = 0.5
    """How far the enhanced labels are believed: 0 not at all, 1 even against a confirmed positive."""
    rate: Annotated[float, AtLeast(0)] = 0.5
    """Weight of an unknown label."""


@register_loss("smile", SmileOptions, reads="soft", paper=ENHANCEMENT)
def smile(logits: Tensor, observed: Tensor, soft: Tensor, *, mu: float, rate: float, expected_positives: float) -> Tensor:
    """Mean over all cells of the cross-entropy with a soft target; logits, observed, soft [N, C], soft in [0, 1].

    observed 1: target mu d + 1 - mu; 0: target mu d + (1 - mu) p0, times rate; -1: -log(1 - p). p0 is held in [0, 1].
    """
    log_p, log_not_p = log_probabilities(logits)
    plain = (observed == 1).to(log_p.dtype).clamp(min=prior(expected_positives, logits.shape[1]))
    target = mu * soft.to(log_p.dtype) + (1 - mu) * plain
    cells = -(target * log_p + (1 - target) * log_not_p)
    return by_label(observed, cells, rate * cells, -log_not_p).mean()
