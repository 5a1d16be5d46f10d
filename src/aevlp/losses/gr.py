"""Generalised robust loss: unknown labels are doubted and re-weighted.

| symbol    | argument  | meaning                                                                  |
| --------- | --------- | ------------------------------------------------------------------------ |
| beta      | w, b      | k(p) = sigmoid(w p + b): how likely an unknown label is really positive  |
| alpha     | mu, sigma | v(p) = exp(-(p - mu)^2 / 2 sigma^2): how much an unknown label counts    |
| q_1, q_2  | q1, q2    | between mean absolute error (1) and cross-entropy (0), as negative, as positive |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.options import Above, AtLeast
from aevlp.losses.cells import by_label, log_probabilities
from aevlp.losses.registry import LossOptions, register_loss

if TYPE_CHECKING:
    from torch import Tensor


def beta(first: float, last: float, epoch: int, epochs: int, warmup: int) -> float:
    """Return the value in epoch 1..epochs of a linear schedule that starts at `first` and never quite reaches `last` (w, b)."""
    return first + (last - first) * max(epoch - warmup - 1, 0) / (epochs - warmup)


def alpha(first: float, last: float, epoch: int, epochs: int, warmup: int) -> float:
    """Return the value in epoch 1..epochs of a linear schedule that leaves `first` at once and ends at `last` (mu, sigma)."""
    return first + (last - first) * max(epoch - warmup, 0) / (epochs - warmup)


@dataclass(frozen=True)
class GrOptions(LossOptions):
    """Options of the generalised robust loss."""

    w0: float = 0.0
    """Slope of k(p), the belief that an unknown label is positive, in the first epoch."""
    w1: float = 2.0
    """Slope of k(p) that the schedule moves towards (VOC 2; COCO, NUS, CUB 10)."""
    b0: float = -2.0
    """Offset of k(p) in the first epoch."""
    b1: float = -2.0
    """Offset of k(p) that the schedule moves towards (VOC -2; COCO, NUS, CUB -8)."""
    mu0: float = 0.5
    """Probability at which an unknown label counts most, at the start."""
    mu1: float = 0.8
    """Probability at which an unknown label counts most, in the last epoch."""
    sigma0: Annotated[float, Above(0)] = 2.0
    """Width of that weight at the start."""
    sigma1: Annotated[float, Above(0)] = 0.5
    """Width of that weight in the last epoch."""
    q1: Annotated[float, Above(0)] = 1.0
    """Robustness of the negative side of an unknown label: 1 is mean absolute error, towards 0 cross-entropy (CUB 1.5)."""
    q2: Annotated[float, Above(0)] = 0.01
    """Robustness of the positive side of an unknown label."""
    schedule_epochs: Annotated[int, AtLeast(1)] | None = None
    """Epochs that the schedule of w, b, mu and sigma takes; later ones keep its last values. null: all of them (the paper)."""

    def at(self, epoch: int, epochs: int, cells: int, warmup: int = 0) -> dict[str, Any]:
        """Keyword arguments of `gr` in epoch 1..epochs."""
        if self.schedule_epochs is not None:
            epochs = warmup + self.schedule_epochs
            epoch = min(epoch, epochs)
        return {
            "w": beta(self.w0, self.w1, epoch, epochs, warmup),
            "b": beta(self.b0, self.b1, epoch, epochs, warmup),
            "mu": alpha(self.mu0, self.mu1, epoch, epochs, warmup),
            "sigma": alpha(self.sigma0, self.sigma1, epoch, epochs, warmup),
            "q1": self.q1,
            "q2": self.q2,
        }


def closeness(p: Tensor, mu: float, sigma: float) -> Tensor:
    """v(p) in (0, 1], a constant to autograd."""
    return (-(p.detach() - mu).square() / (2 * sigma**2)).exp()


def unknown_loss(log_p: Tensor, log_not_p: Tensor, *, w: float, b: float, q1: float, q2: float) -> Tensor:
    """L2 of every cell: k-weighted mix of the robust negative and the robust positive loss."""
    k = (w * log_p.detach().exp() + b).sigmoid()
    # 1 - a^q = -expm1(q log a): no cancellation for a near 1, no infinite slope for a near 0.
    return (1 - k) * -(q1 * log_not_p).expm1() / q1 + k * -(q2 * log_p).expm1() / q2


@register_loss(
    "gr",
    GrOptions,
    paper="Chen et al., Boosting Single Positive Multi-label Classification with Generalized Robust Loss, IJCAI 2024",
)
def gr(logits: Tensor, observed: Tensor, *, w: float, b: float, mu: float, sigma: float, q1: float, q2: float) -> Tensor:
    """Mean over all cells of -log p (observed 1), -log(1 - p) (observed -1), v(p) L2 (observed 0); logits, observed [N, C]."""
    log_p, log_not_p = log_probabilities(logits)
    unknown = closeness(log_p.exp(), mu, sigma) * unknown_loss(log_p, log_not_p, w=w, b=b, q1=q1, q2=q2)
    return by_label(observed, -log_p, unknown, -log_not_p).mean()
