"""Vision-language pseudo-labels: `em` that also learns, with less weight, from positive pseudo-labels.

| symbol  | argument | meaning                                |
| ------- | -------- | -------------------------------------- |
| alpha   | alpha    | weight of the entropy reward           |
| beta    | beta_pos | weight of a positive pseudo-label      |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.citations import VISION_LANGUAGE
from aevlp.core.options import AtLeast
from aevlp.losses.cells import by_label, entropy, log_probabilities
from aevlp.losses.em import EmOptions
from aevlp.losses.registry import register_loss

if TYPE_CHECKING:
    from torch import Tensor

BELIEF = 0.9  # target probability of a positive pseudo-label (label smoothing)


@dataclass(frozen=True)
class VlplLossOptions(EmOptions):
    """Options of the loss of vision-language pseudo-labels."""

    beta_pos: Annotated[float, AtLeast(0)] = 0.7
    """Weight of a positive pseudo-label."""


@register_loss("vlpl", VlplLossOptions, reads="pseudo", paper=VISION_LANGUAGE)
def vlpl(logits: Tensor, observed: Tensor, pseudo: Tensor, *, alpha: float, beta_pos: float) -> Tensor:
    """Mean over all cells; logits, observed, pseudo [N, C], both labels in {1, 0, -1}.

    observed 1: -log p; -1: -log(1 - p); 0 with pseudo 1: beta_pos (-0.9 log p - 0.1 log(1 - p)), with any other: -alpha H(p).
    """
    log_p, log_not_p = log_probabilities(logits)
    positive = -beta_pos * (BELIEF * log_p + (1 - BELIEF) * log_not_p)
    unknown = positive.where(pseudo == 1, -alpha * entropy(log_p, log_not_p))
    return by_label(observed, -log_p, unknown, -log_not_p).mean()
