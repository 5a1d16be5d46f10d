"""The Muon optimizer in single precision: `torch.optim.Muon` works in bfloat16, which is slow on most CPUs.

In one comparison (AdamW at 3e-3), the small CLIP reached the same loss in half the steps with it.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Newton-Schulz, Jordan et al. 2024


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal, for matrices and filters (taken as matrices); steps have AdamW's usual size, 0.2 * lr a cell."""

    def __init__(self, params: Iterable[Tensor], *, lr: float, weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                velocity = self.state[matrix].setdefault("velocity", torch.zeros_like(matrix))
                velocity.mul_(group["momentum"]).add_(matrix.grad)
                turn = orthogonal((matrix.grad + group["momentum"] * velocity).flatten(1)).view_as(matrix)
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.sub_(turn, alpha=group["lr"] * 0.2 * max(matrix.flatten(1).shape) ** 0.5)


def orthogonal(matrix: Tensor) -> Tensor:
    """Return the matrix with its singular values brought near 1 (five Newton-Schulz steps)."""
    a, b, c = _COEFFICIENTS
    upright = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if upright else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if upright else x
