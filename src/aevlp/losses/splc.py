"""Self-paced loss correction: a focal loss that counts unknown labels it is confident of as positives.

| symbol | argument  | meaning                                                        |
| ------ | --------- | -------------------------------------------------------------- |
| m      | margin    | subtracted from the logit of a positive                        |
| tau    | threshold | probability above which an unknown label counts as positive    |
| gamma  | gamma     | how little an easy cell counts                                 |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.options import AtLeast, Between
from aevlp.losses.cells import by_label, log_probabilities
from aevlp.losses.registry import LossOptions, register_loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SplcOptions(LossOptions):
    """Options of self-paced loss correction."""

    margin: Annotated[float, AtLeast(0)] = 1.0
    """Subtracted from the logit of a confirmed positive."""
    threshold: Annotated[float, Between(0, 1)] = 0.6
    """Probability above which an unknown label counts as positive, from the second epoch."""
    gamma: Annotated[float, AtLeast(0)] = 2.0
    """Exponent of the focal weight: 0 is cross-entropy; the higher, the less an easy cell counts."""

    def at(self, epoch: int, epochs: int, cells: int, warmup: int = 0) -> dict[str, Any]:
        """Keyword arguments of `splc` in epoch 1..epochs."""
        return {**super().at(epoch, epochs, cells, warmup), "corrects": epoch >= 2}


@register_loss(
    "splc",
    SplcOptions,
    paper="Zhang et al., Simple and Robust Loss Design for Multi-Label Learning with Missing Labels, arXiv 2021",
)
def splc(logits: Tensor, observed: Tensor, *, margin: float, threshold: float, gamma: float, corrects: bool) -> Tensor:
    """Mean over all cells of a focal loss; logits, observed [N, C], observed in {1, 0, -1}.

    observed 1: (1 - p')^gamma * -log p' with p' = sigmoid(z - margin); -1: -log(1 - p); 0: p^gamma * -log(1 - p), but
    (1 - p)^gamma * -log p if it corrects and p > threshold. Gradients flow through the weights.
    """
    log_p, log_not_p = log_probabilities(logits)
    positive = _focal(*log_probabilities(logits.to(log_p.dtype) - margin), gamma)
    unknown = _focal(log_not_p, log_p, gamma)
    if corrects:
        unknown = _focal(log_p, log_not_p, gamma).where(log_p.exp() > threshold, unknown)
    return by_label(observed, positive, unknown, -log_not_p).mean()


def _focal(log_right: Tensor, log_wrong: Tensor, gamma: float) -> Tensor:
    """(1 - a)^gamma * -log a of every cell, where a is the probability of the assumed label."""
    return (gamma * log_wrong).exp() * -log_right
