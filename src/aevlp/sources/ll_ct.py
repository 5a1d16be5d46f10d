"""LL-Ct: in each batch the unknown labels that cost most as negatives count as positive, for this batch only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.citations import LARGE_LOSS
from aevlp.core.options import Between, Options
from aevlp.losses.large import large_cells, large_count
from aevlp.sources.registry import EpochContext, Source, register_source

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LlCtOptions(Options, section="ll-ct"):
    """Options of the large cells that become positive for a batch."""

    delta: Annotated[float, Between(0, 1)] = 0.002
    """Share of a batch's labels by which the positive ones grow every epoch; none in the first."""


@register_source("ll-ct", LlCtOptions, paper=LARGE_LOSS)
class LlCt(Source):
    """Pseudo-labels from the losses of the batch at hand."""

    options: LlCtOptions

    def begin_epoch(self, context: EpochContext) -> None:
        """Drop the labels of the epoch before."""
        self.epoch = context.epoch
        self.table = self.observed.new_zeros(self.observed.shape)

    def rows(self, index: Tensor, logits: Tensor) -> Tensor:
        """Return int8 [B, C]: 1 where the loss is large, else 0. The table keeps what the epoch used."""
        count = large_count(self.epoch, logits.numel(), self.options.delta, grows=True)
        large = large_cells(logits, self.observed[index].to(logits.device), count).cpu()
        image, label = large.nonzero(as_tuple=True)
        self.table[index[image], label] = 1
        return large.to(self.table.dtype)
