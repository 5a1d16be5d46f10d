"""Assume negative with label smoothing: `an` that believes neither side fully.

| symbol | argument  | meaning                                           |
| ------ | --------- | ------------------------------------------------- |
| eps    | smoothing | share of a cell's loss that goes to the other side |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.citations import SINGLE_POSITIVE
from aevlp.core.options import Between
from aevlp.losses.cells import by_label, log_probabilities
from aevlp.losses.registry import LossOptions, register_loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class AnLsOptions(LossOptions):
    """Options of assume negative with label smoothing."""

    smoothing: Annotated[float, Between(0, 1)] = 0.1
    """Share of a label that goes to the other side."""


@register_loss("an-ls", AnLsOptions, paper=SINGLE_POSITIVE)
def an_ls(logits: Tensor, observed: Tensor, *, smoothing: float) -> Tensor:
    """Mean over all cells of the smoothed cross-entropy; logits, observed [N, C], observed in {1, 0, -1}.

    1: -(1 - smoothing) log p - smoothing log(1 - p); 0: the mirror image; -1 is confirmed, not assumed: -log(1 - p).
    """
    log_p, log_not_p = log_probabilities(logits)
    positive = -(1 - smoothing) * log_p - smoothing * log_not_p
    unknown = -(1 - smoothing) * log_not_p - smoothing * log_p
    return by_label(observed, positive, unknown, -log_not_p).mean()
