"""The modules of the heads, and the shapes in which backbones return their features."""

import math

import torch
from torch import Tensor, nn

# Far beyond any useful latent, and far from where float32's exponential overflows or vanishes.
LOG_VARIANCES = (-10.0, 10.0)


def by_position(features: Tensor) -> Tensor:
    """Return the features at every position, [N, P, D].

    Maps [N, D, H, W] or [N, H, W, D] are square, as images are, so the side that differs is D.
    Of tokens [N, T, D] the last ones that fill a square are taken; class token and registers come before them.
    Pooled features [N, D] have one position.
    """
    if features.ndim == 2:
        return features.unsqueeze(1)
    if features.ndim == 3:
        return features[:, -(math.isqrt(features.shape[1]) ** 2) :]
    _, first, second, third = features.shape
    return features.flatten(1, 2) if first == second != third else features.flatten(2).transpose(1, 2)


def pooled(features: Tensor) -> Tensor:
    """Return the features averaged over the positions, [N, D]."""
    return by_position(features).mean(1)


class BoostedMap(nn.Module):
    """Feature map -> class map, whose positive values are multiplied by `factor` -> its average: logits [N, C]."""

    def __init__(self, width: int, classes: int, factor: float) -> None:
        super().__init__()
        self.by_place = nn.Linear(width, classes)  # a 1x1 convolution; the name is in saved models
        self.factor = factor

    def forward(self, features: Tensor) -> Tensor:
        """Return logits [N, C] of a map or tokens (see `by_position`), the same in training and in evaluation."""
        values: Tensor = self.by_place(by_position(features))
        return values.where(values <= 0, values * self.factor).mean(1)


class Latent(nn.Module):
    """Pooled features -> a latent z per class, N(mu, sigma^2) in each of its `size` dimensions -> logits w_c . z_c + b_c.

    Separate encoders for hundreds of classes would outweigh the backbone: the classes share one, and each has a gate on its
    input. In evaluation z is mu, so that the logits are linear in the features, as those of a plain head are.
    """

    def __init__(self, width: int, classes: int, *, size: int, samples: int, weight: float) -> None:
        super().__init__()
        self.samples = samples
        self.divergence_weight = weight
        self.penalty: Tensor | None = None
        self.narrow = nn.Linear(width, size)
        self.gate = nn.Parameter(torch.empty(classes, size))
        # One layer for both: a separate layer for the variance would look unused in evaluation.
        self.encoder = nn.Linear(size, 2 * size)  # -> mu, log sigma^2
        self.weight = nn.Parameter(torch.empty(classes, size))
        self.bias = nn.Parameter(torch.zeros(classes))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights so that training begins near logit 0, with more signal than noise.

        Linear layers shrink their input to about 1/sqrt(3): from features of about 1, mu is about 0.3 and a logit 0.2, whatever
        the sizes. Sigma is about 1/e: the mean of 10 draws is then within about 0.1 of mu.
        """
        size = self.gate.shape[1]
        self.narrow.reset_parameters()
        self.encoder.reset_parameters()
        nn.init.constant_(self.encoder.bias[size:], -2)
        nn.init.normal_(self.gate, mean=1, std=0.1)
        nn.init.uniform_(self.weight, -1 / math.sqrt(size), 1 / math.sqrt(size))
        nn.init.zeros_(self.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits [N, C] of pooled features [N, D] or [N, D, 1, 1]; training draws the latents and sets `penalty`."""
        mu, log_variance = self.latents(features)
        z = mu
        if self.training:
            # Logits are linear in z, so averaging them over the draws is averaging z, and the average of K draws is one draw
            # with sigma / sqrt(K): the same distribution for a K-th of the work.
            z = mu + (log_variance / 2).exp() * torch.randn_like(mu) / math.sqrt(self.samples)
            self.penalty = self.divergence_weight * divergence(mu, log_variance)
        return (z * self.weight).sum(-1) + self.bias

    def latents(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mu and log sigma^2 of every class's latent, float32 [N, C, size] each, whatever the precision of the layers."""
        shared: Tensor = self.narrow(pooled(features))
        mu, log_variance = self.encoder(shared.unsqueeze(1) * self.gate).float().chunk(2, dim=-1)
        return mu, log_variance.clamp(*LOG_VARIANCES)


def divergence(mu: Tensor, log_variance: Tensor) -> Tensor:
    """Return KL(N(mu, sigma^2) || N(0, 1)), summed over the last axis and averaged over the others: a scalar, at least 0."""
    # expm1(v) - v, not exp(v) - 1 - v: the difference is tiny where the latents are close to the standard normal.
    return (mu.square() + log_variance.expm1() - log_variance).sum(-1).mean() / 2
