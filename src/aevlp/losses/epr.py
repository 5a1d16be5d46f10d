"""Expected-positive regularisation: unknown labels cost nothing, but the positives predicted per image must add up.

| symbol | argument           | meaning                                |
| ------ | ------------------ | -------------------------------------- |
| m      | expected_positives | positives an image is expected to have |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aevlp.core.citations import SINGLE_POSITIVE
from aevlp.losses.cells import by_label, log_probabilities, surplus
from aevlp.losses.registry import register_loss

if TYPE_CHECKING:
    from torch import Tensor


@register_loss("epr", paper=SINGLE_POSITIVE)
def epr(logits: Tensor, observed: Tensor, *, expected_positives: float) -> Tensor:
    """Mean over all cells of -log p (observed 1), 0 (0), -log(1 - p) (-1), plus R; logits, observed [N, C].

    R = ((mean_n sum_c p - m) / C)^2.
    """
    log_p, log_not_p = log_probabilities(logits)
    cells = by_label(observed, -log_p, log_p.new_zeros(()), -log_not_p)
    return cells.mean() + surplus(log_p.exp(), expected_positives)
