"""Confident labels: an unknown label becomes positive, for good, once the classifier is sure of it."""

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
        super().__init__(context, options)
        self.unknown = self.observed == 0
        self.table = self.observed.new_zeros(self.observed.shape)

    def end_epoch(self, context: EpochContext) -> None:
        """Add the labels that the classifier is sure of now; none after the last epoch, when nothing learns from them."""
        if self.options.warmup <= context.epoch < context.epochs:
            self.table[self.unknown & (context.probabilities() > self.options.threshold)] = 1
