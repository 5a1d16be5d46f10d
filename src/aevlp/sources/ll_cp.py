"""LL-Cp: in each batch the unknown labels that cost most as negatives become positive, for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.citations import LARGE_LOSS
from aevlp.core.options import Between, Options
from aevlp.losses.large import large_cells, large_count
from aevlp.sources.registry import EpochContext, SourceContext, StatefulSource, register_source

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class LlCpOptions(Options, section="ll-cp"):
    """Options of the large cells that become positive for good."""

    delta: Annotated[float, Between(0, 1)] = 0.001
    """Share of a batch's labels that become positive in every epoch but the first."""


@register_source("ll-cp", LlCpOptions, paper=LARGE_LOSS)
class LlCp(StatefulSource):
    """Pseudo-labels from the losses of all batches so far."""

    options: LlCpOptions

    def __init__(self, context: SourceContext, options: Any) -> None:
        super().__init__(context, options)
        self.table = self.observed.new_zeros(self.observed.shape)

    def begin_epoch(self, context: EpochContext) -> None:
        """Remember the epoch: the number of large losses depends on it."""
        self.epoch = context.epoch

    def rows(self, index: Tensor, logits: Tensor) -> Tensor:
        """Return int8 [B, C]: 1 where the loss is or once was large, else 0."""
        count = large_count(self.epoch, logits.numel(), self.options.delta, grows=False)
        # A label that has become positive is no longer unknown, so that every batch adds new ones.
        labels = self.observed[index] + self.table[index]
        image, label = large_cells(logits, labels.to(logits.device), count).cpu().nonzero(as_tuple=True)
        self.table[index[image], label] = 1
        return self.table[index]
