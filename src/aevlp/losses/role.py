"""Regularised online label estimation: classifier and label estimates teach each other, and both must add up.

| symbol | argument           | meaning                                              |
| ------ | ------------------ | ---------------------------------------------------- |
| t      | estimated          | the label estimates, sigmoid of one logit per cell   |
| m      | expected_positives | positives an image is expected to have               |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aevlp.core.citations import SINGLE_POSITIVE
from aevlp.losses.cells import by_label, log_probabilities, surplus
from aevlp.losses.registry import register_loss

if TYPE_CHECKING:
    from torch import Tensor


@register_loss("role", reads="estimated", paper=SINGLE_POSITIVE)
def role(logits: Tensor, observed: Tensor, estimated: Tensor, *, expected_positives: float) -> Tensor:
    """Mean over all cells, plus (R(p) + R(t)) / 2; logits, observed, estimated [N, C], estimated in [0, 1].

    CE(a; b) = -b log a - (1 - b) log(1 - a), where b is a constant to autograd, and cross = (CE(p; t) + CE(t; p)) / 2.
    observed 1: cross + (-log p - log t) / 2; 0: cross; -1: -log(1 - p) - log(1 - t), which leaves nothing to estimate.
    """
    from torch import finfo

    log_p, log_not_p = log_probabilities(logits)
    least = finfo(log_p.dtype).eps
    t = estimated.to(log_p.dtype).clamp(least, 1 - least)
    log_t, log_not_t = t.log(), (-t).log1p()
    p = log_p.exp()

    p_now, t_now = p.detach(), t.detach()  # each is a fixed target to the other
    classifier = -(t_now * log_p + (1 - t_now) * log_not_p)
    estimates = -(p_now * log_t + (1 - p_now) * log_not_t)
    cross = (classifier + estimates) / 2
    cells = by_label(observed, cross - (log_p + log_t) / 2, cross, -log_not_p - log_not_t)
    return cells.mean() + (surplus(p, expected_positives) + surplus(t, expected_positives)) / 2
