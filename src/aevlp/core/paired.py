"""The lead of one setting over another beside the noise of the seeds: differences paired by seed."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from scipy.special import stdtrit

LEVEL = 0.9  # of the interval that must not hold zero
FEWEST = 3  # seeds that a claim rests on

SeedValues = Mapping[int, float]  # seed -> figure, in percent


@dataclass(frozen=True)
class PairedDifference:
    """The difference of two settings, in percent, over the seeds that both were trained with."""

    mean: float
    error: float  # standard error of the mean; 0 with fewer than two seeds
    seeds: int

    @property
    def is_certain(self) -> bool:
        """True if the interval of the mean, by Student's t at `LEVEL`, does not hold zero; never with fewer than three seeds."""
        return self.seeds >= FEWEST and abs(self.mean) > float(stdtrit(self.seeds - 1, (1 + LEVEL) / 2)) * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.2f} ± {self.error:.2f}" if self.seeds > 1 else f"{self.mean:+.2f}"


def paired_difference(first: SeedValues, second: SeedValues) -> PairedDifference:
    """Return how far `first` is above `second`; of settings without a common seed, the difference of their means."""
    values = [first[seed] - second[seed] for seed in first if seed in second]
    if not values:
        return PairedDifference(statistics.mean(first.values()) - statistics.mean(second.values()), 0.0, 0)
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return PairedDifference(statistics.mean(values), error, len(values))


def no_claim(seeds: int) -> str:
    """Return why nothing is claimed with so few seeds."""
    return f"{('no common seed', 'one seed', 'two seeds')[seeds]}: no claim"
