"""Latent head: the logit of each class depends on a random latent of its own that is kept near the standard normal.

| symbol        | argument | meaning                                                |
| ------------- | -------- | ------------------------------------------------------ |
| z             | size     | the latent of a class, and its dimension               |
| K             | samples  | draws of z that are averaged in training               |
| beta          | weight   | weight of KL(N(mu_z, sigma_z^2) || N(0, 1)) in the loss |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.citations import MUTUAL_INFORMATION
from aevlp.core.options import AtLeast, Between, Options
from aevlp.models.heads.registry import register_head

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class LatentOptions(Options, section="latent"):
    """Options of the latent head."""

    size: Annotated[int, Between(1, 65536)] = 256
    """Dimension of the latent of a class."""
    samples: Annotated[int, AtLeast(1)] = 10
    """Draws of the latent that are averaged in training; evaluation uses its mean."""
    weight: Annotated[float, AtLeast(0)] = 1e-4
    """Weight in the loss of the latents' divergence from the standard normal distribution."""


@register_head("latent", LatentOptions, paper=MUTUAL_INFORMATION)
def latent(width: int, classes: int, options: LatentOptions) -> nn.Module:
    """Return a module that turns pooled features, D = width, into logits [N, C]; its `penalty` is the weighted divergence."""
    from aevlp.models.head_layers import Latent

    return Latent(width, classes, size=options.size, samples=options.samples, weight=options.weight)
