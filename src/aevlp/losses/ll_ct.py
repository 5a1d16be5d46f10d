"""Large loss correction, temporary: the unknown cells whose loss is largest count as positives, in this batch only.

This is the pure form for one batch. The method `ll-ct` is `bce` with a label source that finds the same cells, so that any other
loss that reads pseudo-labels can use them too; so this function is not registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aevlp.losses.bce import bce
from aevlp.losses.large import large_cells

if TYPE_CHECKING:
    from torch import Tensor


def ll_ct(logits: Tensor, observed: Tensor, *, count: int) -> Tensor:
    """Mean over all cells of -log p (observed 1, and the `count` largest unknown cells) or of -log(1 - p); all [N, C]."""
    return bce(logits, observed, large_cells(logits, observed, count))
