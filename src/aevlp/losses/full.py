"""Binary cross-entropy on complete labels: the upper reference that the other losses are held against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aevlp.losses.an import an
from aevlp.losses.registry import register_loss

if TYPE_CHECKING:
    from torch import Tensor


@register_loss("full", needs_truth=True)
def full(logits: Tensor, truth: Tensor) -> Tensor:
    """Mean over all cells of the binary cross-entropy with truth [N, C] in {1, -1} (0 is read as -1).

    On complete labels nothing is assumed, so the formula is that of `an`; what differs is the labels it is given.
    """
    return an(logits, truth)
