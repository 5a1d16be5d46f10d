"""LL-Ct: in each batch the unknown labels that cost most as negatives count as positive, for this batch only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.citations import LARGE_LOSS
from aevlp.core.options import Between, Options
from aevlp.losses.large import large_cells, large_count
from aevlp.sources.registry import EpochContext, Source, SourceContext, register_source

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

    def __init__(self, context: SourceContext, options: Any) -> None:
        import torch

        super().__init__(context, options)
        self.observed = torch.from_numpy(context.split.observed)

    def begin_epoch(self, context: EpochContext) -> None:
        """Forgets the labels of the epoch before."""
        import torch

        self.epoch = context.epoch
        self.table = torch.zeros(self.observed.shape, dtype=torch.int8)

    def rows(self, index: Tensor, logits: Tensor) -> Tensor:
        """Int8 [B, C]: 1 where the batch's loss is large, else 0; also kept in the table, which tells what the epoch used."""
        import torch

        count = large_count(self.epoch, logits.numel(), self.options.delta, grows=True)
        large = large_cells(logits, self.observed[index].to(logits.device), count).cpu()
        image, label = large.nonzero(as_tuple=True)
        self.table[index[image], label] = 1
        return large.to(torch.int8)
