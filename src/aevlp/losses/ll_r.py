"""Large loss rejection: `an` without the unknown cells whose loss is largest, more of them every epoch.

| symbol | argument | meaning                                                  |
| ------ | -------- | -------------------------------------------------------- |
| k      | count    | how many cells of the batch are rejected                 |
| delta  | delta    | by how much that number grows per epoch, as a share      |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.citations import LARGE_LOSS
from aevlp.core.options import Between
from aevlp.losses.cells import log_probabilities
from aevlp.losses.large import large_cells, large_count
from aevlp.losses.registry import LossOptions, register_loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LlROptions(LossOptions):
    """Options of large loss rejection."""

    delta: Annotated[float, Between(0, 1)] = 0.005
    """Share of a batch's cells that is rejected in epoch 2; it grows by as much every epoch."""

    def at(self, epoch: int, epochs: int, cells: int, warmup: int = 0) -> dict[str, Any]:
        """Keyword arguments of `ll_r` in epoch 1..epochs."""
        return {"count": large_count(epoch, cells, self.delta, grows=True)}


@register_loss("ll-r", LlROptions, paper=LARGE_LOSS)
def ll_r(logits: Tensor, observed: Tensor, *, count: int) -> Tensor:
    """Mean over all cells of -log p (observed 1) or -log(1 - p) (0, -1), the `count` largest unknown cells at 0; all [N, C]."""
    log_p, log_not_p = log_probabilities(logits)
    cells = -log_p.where(observed == 1, log_not_p)
    return cells.masked_fill(large_cells(logits, observed, count), 0).mean()
