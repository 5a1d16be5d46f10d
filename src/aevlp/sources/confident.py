"""Confident labels: an unknown label becomes positive, for good, once the classifier is sure of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aevlp.core.citations import MUTUAL_INFORMATION
from aevlp.core.errors import require
from aevlp.sources.registry import Moment, Remembering, SourceOptions, Task, register_source


@dataclass(frozen=True)
class ConfidentOptions(SourceOptions):
    """Options of the labels that the classifier is sure of."""

    threshold: float = 0.95
    """Probability above which an unknown label becomes positive."""
    warmup: int = 2
    """First epoch after which labels become positive (CUB 5)."""

    def __post_init__(self) -> None:
        """Checks the ranges."""
        require(0 <= self.threshold <= 1, "confident.threshold", "from 0 to 1", self.threshold)
        require(self.warmup >= 0, "confident.warmup", "at least 0", self.warmup)


@register_source("confident", ConfidentOptions, paper=MUTUAL_INFORMATION)
class Confident(Remembering):
    """Pseudo-labels from the classifier's own probabilities."""

    options: ConfidentOptions

    def __init__(self, task: Task, options: Any) -> None:
        import torch

        super().__init__(task, options)
        self.unknown = torch.from_numpy(task.split.observed == 0)
        self.table = torch.zeros(self.unknown.shape, dtype=torch.int8)

    def end(self, moment: Moment) -> None:
        """Adds what the classifier is sure of now; not after the last epoch, as nothing would learn from it."""
        if self.options.warmup <= moment.epoch < moment.epochs:
            self.table[self.unknown & (moment.probabilities() > self.options.threshold)] = 1
