"""Binary cross-entropy with pseudo-labels: `an` that counts positive pseudo-labels as positives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aevlp.losses.cells import log_probabilities
from aevlp.losses.registry import register_loss

if TYPE_CHECKING:
    from torch import Tensor


@register_loss("bce", reads="pseudo")
def bce(logits: Tensor, observed: Tensor, pseudo: Tensor) -> Tensor:
    """Mean over all cells of -log p where observed is 1, or 0 with pseudo 1, and of -log(1 - p) elsewhere; all [N, C]."""
    log_p, log_not_p = log_probabilities(logits)
    positive = (observed == 1) | ((observed == 0) & (pseudo == 1))
    return -log_p.where(positive, log_not_p).mean()
