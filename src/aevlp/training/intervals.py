"""Intervals for figures that are measured on a few fully labelled images: the Bayesian bootstrap over images (Rubin, 1981)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
LEVEL = 0.9
REPLICATES = 2000
MOST_WEIGHTS = 20_000_000  # random numbers, 160 MB: with very many images there are fewer replicates


@dataclass(frozen=True)
class Interval:
    """A measured share and the interval that holds the true one in `LEVEL` of all cases, 0 to 1; people read it in percent."""

    value: float | None  # None: nothing was there to measure it on
    low: float
    high: float

    def __str__(self) -> str:
        value = "unknown" if self.value is None else f"{100 * self.value:.1f} %"
        return f"{value} ({100 * LEVEL:.0f} % interval {100 * self.low:.1f} to {100 * self.high:.1f} %)"


class ImageBootstrap:
    """Random weights of images. All intervals of one measurement share them, so that the same question has the same answer.

    `worth` is how much an image counts, 0 to 1, for all or for each [N]: below 1, intervals are wider.
    """

    def __init__(self, images: int, seed: int, worth: float | Floats = 1.0) -> None:
        self.seed = seed
        rng = np.random.default_rng(seed)
        replicates = int(np.clip(MOST_WEIGHTS // max(images, 1), 200, REPLICATES))
        self.weights = rng.gamma(worth, 1.0 / worth, size=(replicates, images))
        # Jeffreys' prior, half a hit and half a miss: three hits of three are no proof that there are no misses.
        self.hit, self.miss = rng.gamma(0.5, size=(2, replicates))

    def share(self, hits: Floats, claims: Floats, trials: int) -> Interval:
        """Return sum(hits) / sum(claims), where each image contributes its part [N].

        The interval is for the share among `trials` other cells: with few of them, chance moves that share too.
        """
        total, trials = float(claims.sum()), max(trials, 1)
        shares = np.clip((self.weights @ hits + self.hit) / (self.weights @ claims + self.hit + self.miss), 0, 1)
        found = np.random.default_rng([self.seed, trials]).binomial(trials, shares) / trials
        low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Interval(float(hits.sum()) / total if total else None, float(low), float(high))
