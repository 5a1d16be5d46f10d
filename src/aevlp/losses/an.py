"""Assume negative: whatever is not a confirmed positive counts as negative."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aevlp.core.citations import SINGLE_POSITIVE
from aevlp.losses.cells import log_probabilities
from aevlp.losses.registry import register_loss

if TYPE_CHECKING:
    from torch import Tensor


@register_loss("an", paper=SINGLE_POSITIVE)
def an(logits: Tensor, observed: Tensor) -> Tensor:
    """Mean over all cells of -log p where observed [N, C] is 1 and of -log(1 - p) where it is 0 or -1."""
    log_p, log_not_p = log_probabilities(logits)
    return -log_p.where(observed == 1, log_not_p).mean()
