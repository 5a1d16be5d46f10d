"""Large losses: the unknown cells whose loss as negatives is largest are probably positives.

| symbol | argument | meaning                              |
| ------ | -------- | ------------------------------------ |
| k      | count    | large cells in a batch               |
| delta  | delta    | that number as a share of all cells  |
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from aevlp.losses.cells import log_probabilities

if TYPE_CHECKING:
    from torch import Tensor


def large_count(epoch: int, cells: int, delta: float, *, grows: bool) -> int:
    """Return how many cells of a batch count as large: 0 in epoch 1, then a share delta, or (epoch - 1) * delta if it grows."""
    if epoch == 1:
        return 0
    share = delta * (epoch - 1) if grows else delta
    return ceil(cells * share - 1e-9)  # rounding error must not add a cell


def large_cells(logits: Tensor, observed: Tensor, count: int) -> Tensor:
    """Return a mask [N, C]: the unknown cells (observed 0) whose -log(1 - p) is at least the count-th largest of the batch.

    Ties at the limit are all in; a count beyond the unknown cells means all of them. Constant to autograd.
    """
    unknown = observed == 0
    if count == 0:
        return unknown.new_zeros(unknown.shape)
    _, log_not_p = log_probabilities(logits.detach())
    losses = (-log_not_p).where(unknown, 0)
    limit = losses.flatten().topk(min(count, losses.numel())).values[-1]
    return unknown & (losses >= limit)
