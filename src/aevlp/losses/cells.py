"""Quantities that several losses compute per cell, i.e. per image and class.

Everything else in the loss files uses tensor methods, so that `--help` can list their options without loading torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def log_probabilities(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return (log p, log(1 - p)) for p = sigmoid(logits), same shape, in float32 (float64 stays float64).

    Half precision would lose log(1 - p) already at logits of 10; in float32 both logs are exact and finite for |logit| <= 100.
    """
    import torch

    z = logits if logits.dtype == torch.float64 else logits.float()
    return torch.nn.functional.logsigmoid(z), torch.nn.functional.logsigmoid(-z)


def by_label(observed: Tensor, positive: Tensor, unknown: Tensor, negative: Tensor) -> Tensor:
    """Return each cell's value by its observed label 1, 0 or -1, all [N, C]."""
    return positive.where(observed == 1, negative.where(observed == -1, unknown))


def entropy(log_p: Tensor, log_not_p: Tensor) -> Tensor:
    """Return H(p) = -p log p - (1 - p) log(1 - p) of every cell."""
    return -(log_p.exp() * log_p + log_not_p.exp() * log_not_p)


def prior(expected_positives: float, classes: int) -> float:
    """Return (m - 1) / (C - 1), from 0 to 1: the chance that an unknown label is positive if m of C are and one is observed."""
    return min(max((expected_positives - 1) / (classes - 1), 0.0), 1.0) if classes > 1 else 0.0


def surplus(p: Tensor, expected_positives: float) -> Tensor:
    """Return R = ((mean over the rows of the sum of p - m) / C)^2 for p [N, C]: how far the rows are from m positives each."""
    return ((p.sum(1).mean() - expected_positives) / p.shape[1]).square()
