"""Soft GPR: the generalised pseudo-label robust loss with pseudo-labels that are believed in part.

| symbol             | argument           | meaning                                                             |
| ------------------ | ------------------ | ------------------------------------------------------------------- |
| k                  | soft               | belief that a label is positive                                     |
| beta, alpha, q_1,2 | w, b, mu, sigma, q1, q2 | as in `gr`                                                     |
| lambda_1, lambda_2 | lambda1, lambda2   | least and greatest weight of a positive pseudo-label                |
| eta                | eta                | weight of the regulariser R                                         |
| m                  | expected_positives | positives an image is expected to have                              |

With beliefs of 0 and 1, and of 1 in every observed positive, it is `gpr` without negative pseudo-labels and with q_3 = 1: a
belief needs no label smoothing. An observed positive that may be wrong is believed in part.
A confirmed negative is a label that nobody believes. In other losses it costs its cross-entropy. But the labels that people
reject look likely: pushed further down than the unlikely ones, which stay unknown, they would be ranked below them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.citations import AEVLP
from aevlp.core.errors import require
from aevlp.core.options import AtLeast
from aevlp.losses.cells import log_probabilities, surplus
from aevlp.losses.gr import GrOptions, closeness, unknown_loss
from aevlp.losses.registry import register_loss

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SoftGprOptions(GrOptions):
    """Options of the generalised robust loss with positive pseudo-labels."""

    lambda1: Annotated[float, AtLeast(0)] = 0.4
    """Least weight of a positive pseudo-label, at most lambda2 (VOC 0.4; COCO, NUS 0.5; CUB 0.2)."""
    lambda2: Annotated[float, AtLeast(0)] = 0.7
    """Greatest weight of a positive pseudo-label (CUB 0.8)."""
    eta: Annotated[float, AtLeast(0)] = 0.01
    """Weight of the regulariser that holds the sum of p at expected_positives (VOC 0.05; COCO, NUS 0.001; CUB 0.01)."""

    def __post_init__(self) -> None:
        """Check lambda1 against lambda2."""
        super().__post_init__()
        require(self.lambda1 <= self.lambda2, "loss.lambda1", f"from 0 to --loss.lambda2 ({self.lambda2})", self.lambda1)

    def at(self, epoch: int, epochs: int, cells: int, warmup: int = 0) -> dict[str, Any]:
        """Keyword arguments of `soft_gpr` in epoch 1..epochs."""
        own = {name: getattr(self, name) for name in ("lambda1", "lambda2", "eta")}
        return {**super().at(epoch, epochs, cells, warmup), **own}


@register_loss("soft-gpr", SoftGprOptions, reads="soft", paper=AEVLP)
def soft_gpr(
    logits: Tensor,
    observed: Tensor,
    soft: Tensor,
    *,
    w: float,
    b: float,
    mu: float,
    sigma: float,
    q1: float,
    q2: float,
    lambda1: float,
    lambda2: float,
    eta: float,
    expected_positives: float,
) -> Tensor:
    """Mean over all cells, plus eta * R; logits, observed, soft [N, C], observed in {1, 0, -1}, soft in [0, 1].

    -k u log p + (1 - k) v L2, with v, L2 and R as in `gpr`; u is 1 where observed is 1 and clip(1 - v, lambda1, lambda2)
    elsewhere; k is 0 where observed is -1.
    """
    log_p, log_not_p = log_probabilities(logits)
    p, k = log_p.exp(), soft.to(log_p.dtype).masked_fill(observed == -1, 0)
    v = closeness(p, mu, sigma)
    undefined = v * unknown_loss(log_p, log_not_p, w=w, b=b, q1=q1, q2=q2)
    positive = (1 - v).clamp(lambda1, lambda2).masked_fill(observed == 1, 1) * -log_p
    cells = k * positive + (1 - k) * undefined
    return cells.mean() + eta * surplus(p, expected_positives)
