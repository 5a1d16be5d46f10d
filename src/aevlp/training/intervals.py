"""Intervals for figures that are measured on a few fully labelled images: the Bayesian bootstrap over images (Rubin, 1981)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
LEVEL = 0.9
REPLICATES = 2000


@dataclass(frozen=True)
class Interval:
    """A measured share and the interval that holds the true one in `LEVEL` of all cases, 0 to 1."""

    value: float | None  # None: nothing was there to measure it on
    low: float
    high: float

    def __str__(self) -> str:
        value = "unknown" if self.value is None else f"{self.value:.3f}"
        return f"{value} ({100 * LEVEL:.0f} % interval {self.low:.3f} to {self.high:.3f})"


class ImageBootstrap:
    """Random weights of images. All intervals of one measurement share them."""

    def __init__(self, images: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.weights = rng.exponential(size=(REPLICATES, images))
        # Jeffreys' prior, as half a hit and half a miss: three hits of three are no proof that there are no misses.
        self.prior = rng.gamma(0.5, size=(2, REPLICATES))

    def share(self, hits: Floats, claims: Floats, trials: int) -> Interval:
        """Return sum(hits) / sum(claims), where each image contributes its part [N].

        The interval is for the share among `trials` other cells: with few of them, chance moves that share too.
        """
        total = float(claims.sum())
        size = total / max(int((claims > 0).sum()), 1)  # of an image's contribution: the prior is half an image each
        hit, miss = self.prior * (size or 1.0)
        shares = np.clip((self.weights @ hits + hit) / (self.weights @ claims + hit + miss), 0, 1)
        found = self.rng.binomial(max(trials, 1), shares) / max(trials, 1)
        low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Interval(float(hits.sum()) / total if total else None, float(low), float(high))
