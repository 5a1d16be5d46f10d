"""Confident labels: an unknown label becomes positive, for good, once the classifier is sure of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from aevlp.core.citations import MUTUAL_INFORMATION
from aevlp.core.options import AtLeast, Between, Options
from aevlp.sources.registry import EpochContext, SourceContext, StatefulSource, register_source


@dataclass(frozen=True)
class ConfidentOptions(Options, section="confident"):
    """Options of the labels that the classifier is sure of."""

    threshold: Annotated[float, Between(0, 1)] = 0.95
    """Probability above which an unknown label becomes positive."""
    warmup: Annotated[int, AtLeast(0)] = 2
    """First epoch after which labels become positive (CUB 5)."""


@register_source("confident", ConfidentOptions, paper=MUTUAL_INFORMATION)
class Confident(StatefulSource):
    """Pseudo-labels from the classifier's own probabilities."""

    options: ConfidentOptions

    def __init__(self, context: SourceContext, options: Any) -> None:
        import torch

        super().__init__(context, options)
        self.unknown = torch.from_numpy(context.split.observed == 0)
        self.table = torch.zeros(self.unknown.shape, dtype=torch.int8)

    def end_epoch(self, context: EpochContext) -> None:
        """Adds what the classifier is sure of now; not after the last epoch, as nothing would learn from it."""
        if self.options.warmup <= context.epoch < context.epochs:
            self.table[self.unknown & (context.probabilities() > self.options.threshold)] = 1
