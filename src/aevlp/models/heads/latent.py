"""Latent head: every class reads its logit from a random latent of its own that is held near the standard normal.

| symbol        | argument | meaning                                                |
| ------------- | -------- | ------------------------------------------------------ |
| z             | size     | a class's latent, and how many numbers it has          |
| K             | samples  | draws of z that are averaged in training               |
| beta          | weight   | weight of KL(N(mu_z, sigma_z^2) || N(0, 1)) in the loss |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from aevlp.core.citations import MUTUAL_INFORMATION
from aevlp.core.options import AtLeast, Options
from aevlp.models.heads.registry import register_head

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class LatentOptions(Options, section="latent"):
    """Options of the latent head."""

    size: Annotated[int, AtLeast(1)] = 256
    """Numbers in the latent of a class."""
    samples: Annotated[int, AtLeast(1)] = 10
    """Draws of the latent that are averaged in training; in evaluation its mean is used."""
    weight: Annotated[float, AtLeast(0)] = 1e-4
    """Weight in the loss of the latents' divergence from the standard normal distribution."""


@register_head("latent", LatentOptions, paper=MUTUAL_INFORMATION)
def latent(width: int, classes: int, options: LatentOptions) -> nn.Module:
    """A module from pooled features, D = width, to logits [N, C]; its `penalty` is the weighted divergence."""
    from aevlp.models.head_layers import Latent

    return Latent(width, classes, size=options.size, samples=options.samples, weight=options.weight)
