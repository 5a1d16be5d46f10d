"""Generalised pseudo-label robust loss: `gr` that also learns from positive and negative pseudo-labels.

| symbol             | argument           | meaning                                                             |
| ------------------ | ------------------ | ------------------------------------------------------------------- |
| beta, alpha, q_1,2 | w, b, mu, sigma, q1, q2 | as in `gr`                                                     |
| q_3                | q3                 | how far a positive pseudo-label is believed (label smoothing)       |
| lambda_1, lambda_2 | lambda1, lambda2   | least and greatest weight of a positive pseudo-label                |
| (not in the paper) | lambda3            | how far a negative pseudo-label is believed; 1: as in the paper     |
| eta                | eta                | weight of the regulariser R                                         |
| m                  | expected_positives | positives an image is expected to have                              |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.citations import AEVLP
from aevlp.core.options import Between
from aevlp.losses.cells import by_label, log_probabilities, surplus
from aevlp.losses.gr import closeness, unknown_loss
from aevlp.losses.registry import register_loss
from aevlp.losses.soft_gpr import SoftGprOptions

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class GprOptions(SoftGprOptions):
    """Options of the generalised pseudo-label robust loss."""

    q3: Annotated[float, Between(0, 1)] = 0.9
    """Target probability of a positive pseudo-label."""
    lambda3: Annotated[float, Between(0, 1)] = 1.0
    """How far a negative pseudo-label is believed: 1 as in the paper, 0 not at all (it stays unknown), between them a mix."""

    def at(self, epoch: int, epochs: int, cells: int, warmup: int = 0) -> dict[str, Any]:
        """Keyword arguments of `gpr` in epoch 1..epochs."""
        return {**super().at(epoch, epochs, cells, warmup), "q3": self.q3, "lambda3": self.lambda3}


@register_loss("gpr", GprOptions, reads="pseudo", paper=AEVLP)
def gpr(
    logits: Tensor,
    observed: Tensor,
    pseudo: Tensor,
    *,
    w: float,
    b: float,
    mu: float,
    sigma: float,
    q1: float,
    q2: float,
    q3: float,
    lambda1: float,
    lambda2: float,
    eta: float,
    expected_positives: float,
    lambda3: float = 1.0,
) -> Tensor:
    """Mean over all cells of weight * loss, plus eta * R; logits, observed, pseudo [N, C], both labels in {1, 0, -1}.

    observed 1: -log p; observed -1: -log(1 - p); otherwise by the pseudo-label, 0: v L2, -1: -v log(1 - p) (with lambda3 below 1,
    v (lambda3 * -log(1 - p) + (1 - lambda3) L2)), 1: clip(1 - v, lambda1, lambda2) * (-(1 - q3) log(1 - p) - q3 log p).
    R = ((mean_n sum_c p - m) / C)^2.
    """
    log_p, log_not_p = log_probabilities(logits)
    p = log_p.exp()
    v = closeness(p, mu, sigma)

    undefined = v * unknown_loss(log_p, log_not_p, w=w, b=b, q1=q1, q2=q2)
    negative = v * -log_not_p if lambda3 == 1 else lambda3 * v * -log_not_p + (1 - lambda3) * undefined
    positive = (1 - v).clamp(lambda1, lambda2) * -((1 - q3) * log_not_p + q3 * log_p)
    by_pseudo = positive.where(pseudo == 1, negative.where(pseudo == -1, undefined))

    cells = by_label(observed, -log_p, by_pseudo, -log_not_p)
    return cells.mean() + eta * surplus(p, expected_positives)
