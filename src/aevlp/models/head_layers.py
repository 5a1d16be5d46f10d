"""The modules that heads consist of, and the shapes in which backbones hand over their features."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# Far beyond where a latent ever is of use, and far from where float32's exponential overflows or vanishes.
LOG_VARIANCES = (-10.0, 10.0)


def places(features: Tensor) -> Tensor:
    """The features of every place, [N, P, D].

    Of a map [N, D, H, W] or [N, H, W, D]: maps are square, as images are, so the side that differs is D.
    Of tokens [N, T, D]: the last ones that fill a square; class token and registers stand before them.
    Pooled features [N, D] have one place.
    """
    if features.ndim == 2:
        return features.unsqueeze(1)
    if features.ndim == 3:
        return features[:, -(math.isqrt(features.shape[1]) ** 2) :]
    _, first, second, third = features.shape
    return features.flatten(1, 2) if first == second != third else features.flatten(2).transpose(1, 2)


def pooled(features: Tensor) -> Tensor:
    """The features averaged over the places, [N, D]."""
    return places(features).mean(1)


class BoostedMap(nn.Module):
    """Feature map -> class map, whose positive values are multiplied by `factor` -> its average: logits [N, C]."""

    def __init__(self, width: int, classes: int, factor: float) -> None:
        super().__init__()
        self.by_place = nn.Linear(width, classes)  # at every place, which is what a 1x1 convolution is
        self.factor = factor

    def forward(self, features: Tensor) -> Tensor:
        """Logits [N, C] of a map or tokens (see `places`); the same in training and in evaluation."""
        values: Tensor = self.by_place(places(features))
        return values.where(values <= 0, values * self.factor).mean(1)


class Latent(nn.Module):
    """Pooled features -> a latent z per class, N(mu, sigma^2) in each of its `size` numbers -> logits w_c . z_c + b_c.

    An encoder for each of hundreds of classes would outweigh the backbone: they share theirs, and each class has a gate on what
    goes into it. In evaluation z is mu, so that the logits are linear in the features, as those of a plain head are.
    """

    def __init__(self, width: int, classes: int, *, size: int, samples: int, weight: float) -> None:
        super().__init__()
        self.samples = samples
        self.divergence_weight = weight
        self.penalty: Tensor | None = None
        self.narrow = nn.Linear(width, size)
        self.gate = nn.Parameter(torch.empty(classes, size))
        # One layer for both: a variance of its own would look unused in an evaluation pass.
        self.encoder = nn.Linear(size, 2 * size)  # -> mu, log sigma^2
        self.weight = nn.Parameter(torch.empty(classes, size))
        self.bias = nn.Parameter(torch.zeros(classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights so that a training begins undecided, with more signal than noise.

        Linear layers shrink what they get to about 1/sqrt(3) of it: from features of about 1, mu is about 0.3 and a logit 0.2,
        whatever the sizes. Sigma is about 1/e: the mean of 10 draws is then within about 0.1 of mu.
        """
        size = self.gate.shape[1]
        self.narrow.reset_parameters()
        self.encoder.reset_parameters()
        nn.init.constant_(self.encoder.bias[size:], -2)
        nn.init.normal_(self.gate, mean=1, std=0.1)
        nn.init.uniform_(self.weight, -1 / math.sqrt(size), 1 / math.sqrt(size))
        nn.init.zeros_(self.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Logits [N, C] of pooled features [N, D] or [N, D, 1, 1]; in training, of drawn latents, and `penalty` is set."""
        mu, log_variance = self.latents(features)
        z = mu
        if self.training:
            # Logits are linear in z, so averaging them over the draws is averaging z, and the average of K draws is one draw
            # with sigma / sqrt(K): the same distribution for a K-th of the work.
            z = mu + (log_variance / 2).exp() * torch.randn_like(mu) / math.sqrt(self.samples)
            self.penalty = self.divergence_weight * divergence(mu, log_variance)
        return (z * self.weight).sum(-1) + self.bias

    def latents(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mu and log sigma^2 of every class's latent, float32 [N, C, size] each, whatever the precision of the layers."""
        shared: Tensor = self.narrow(pooled(features))
        mu, log_variance = self.encoder(shared.unsqueeze(1) * self.gate).float().chunk(2, dim=-1)
        return mu, log_variance.clamp(*LOG_VARIANCES)


def divergence(mu: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mu, sigma^2) || N(0, 1)), summed over the last axis, the mean over the others: a scalar, at least 0."""
    # expm1(v) - v, not exp(v) - 1 - v: the difference is tiny where the latents are close to the standard normal.
    return (mu.square() + log_variance.expm1() - log_variance).sum(-1).mean() / 2
