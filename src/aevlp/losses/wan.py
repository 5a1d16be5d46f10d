"""Weak negatives: an unknown label counts as a negative, but all of a row's together only as much as one positive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aevlp.core.citations import SINGLE_POSITIVE
from aevlp.losses.cells import by_label, log_probabilities
from aevlp.losses.registry import register_loss

if TYPE_CHECKING:
    from torch import Tensor


@register_loss("wan", paper=SINGLE_POSITIVE)
def wan(logits: Tensor, observed: Tensor) -> Tensor:
    """Mean over all cells of -log p (observed 1), -log(1 - p) (-1), -log(1 - p) / (C - 1) (0); logits, observed [N, C]."""
    log_p, log_not_p = log_probabilities(logits)
    others = max(logits.shape[1] - 1, 1)  # of a single class there are no others to share the weight with
    return by_label(observed, -log_p, -log_not_p / others, -log_not_p).mean()
