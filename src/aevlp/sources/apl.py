"""Asymmetric pseudo-labels: epoch by epoch, the unknown labels that look least likely become soft negatives, for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.citations import UNKNOWN
from aevlp.core.options import AtLeast, Between, Options
from aevlp.sources.registry import EpochContext, SourceContext, StatefulSource, register_source

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class AplOptions(Options, section="apl"):
    """Options of the asymmetric pseudo-labels."""

    warmup: Annotated[int, AtLeast(0)] = 5
    """First epoch after which labels become soft negatives (NUS 4; CUB 3); at most the last but one."""
    share: Annotated[float, Between(0, 1)] = 0.9
    """Share of each class's unknown labels that are soft negatives in the end."""


def lowest(p: Tensor, eligible: Tensor, count: Tensor) -> Tensor:
    """Return a mask [N, C]: of each column's eligible cells the count [C] with the lowest p; of equal p, the upper rows."""
    import torch

    order = p.where(eligible, torch.inf).argsort(dim=0, stable=True)
    first = torch.arange(len(p)).unsqueeze(1) < count
    return torch.zeros_like(eligible).scatter_(0, order, first) & eligible


@register_source("apl", AplOptions, yields="soft_negative", paper=UNKNOWN)
class Apl(StatefulSource):
    """Soft negatives: float32 [N, C], the probability that a label is held at; -1 where there is none."""

    options: AplOptions

    def __init__(self, context: SourceContext, options: Any) -> None:
        super().__init__(context, options)
        self.unknown = self.observed == 0
        self.table = self.observed.float().fill_(-1)

    def end_epoch(self, context: EpochContext) -> None:
        """Freeze this epoch's share of soft negatives; none after the last epoch, when nothing learns from them."""
        warmup = min(self.options.warmup, context.epochs - 1)
        if not warmup <= context.epoch < context.epochs:
            return
        # 0.7 * 90 is 62.999... in floating point, which must not cost a label.
        count = (self.options.share * self.unknown.sum(0).double() / (context.epochs - warmup) + 1e-9).long()
        p = context.probabilities()
        self.table = p.where(lowest(p, self.unknown & (self.table < 0), count), self.table)
