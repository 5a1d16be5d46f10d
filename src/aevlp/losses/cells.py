"""Logarithms of probabilities, from logits.

The loss files take everything else from tensor methods, so that their options can be listed (`--help`) without loading torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def log_probabilities(logits: Tensor) -> tuple[Tensor, Tensor]:
    """(log p, log(1 - p)) for p = sigmoid(logits), same shape, in float32 (float64 stays float64).

    Half precision would lose log(1 - p) already at logits of 10; in float32 both logs are exact and finite for |logit| <= 100.
    """
    from torch import float64
    from torch.nn.functional import logsigmoid

    z = logits if logits.dtype == float64 else logits.float()
    return logsigmoid(z), logsigmoid(-z)
