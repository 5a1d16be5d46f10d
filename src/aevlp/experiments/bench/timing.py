"""Timing of several things side by side, so that other load on the machine affects them alike."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

log = logging.getLogger("aevlp.experiments.bench")


@dataclass(frozen=True)
class Ratio:
    """The median over the rounds of a quotient, with the smallest and the greatest."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, quotients: Sequence[float]) -> Ratio:
        """Return the median, smallest and greatest of the quotients of all rounds."""
        return cls(median(quotients), min(quotients), max(quotients))


@dataclass(frozen=True)
class Times:
    """Seconds of each named thing, round by round."""

    seconds: Mapping[str, list[float]]

    def ratio(self, over: str, under: str) -> Ratio:
        """Return the seconds of `over` divided by those of `under` in the same round."""
        return Ratio.of([a / b for a, b in zip(self.seconds[over], self.seconds[under], strict=True)])

    def part(self, amount: float, of: str) -> Ratio:
        """Return `amount` divided by the seconds of `of`: a rate if it counts something, a share if it is itself a time."""
        return Ratio.of([amount / seconds for seconds in self.seconds[of]])

    def median(self, of: str) -> float:
        """Return the median over the rounds of the seconds of `of`."""
        return median(self.seconds[of])


def side_by_side(
    title: str,
    ways: Mapping[str, Callable[[], object]],
    repeats: int,
    *,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> Times:
    """Time every way once per round; every second round goes through them backwards.

    Each way is called once before the first round, without being timed, unless `warm_up` is false.
    """
    if warm_up:
        for way in ways.values():
            way()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats):
        log.info("%s: round %d of %d", title, turn + 1, repeats)
        for name in reversed(seconds) if turn % 2 else seconds:
            started = clock()
            ways[name]()
            seconds[name].append(clock() - started)
    return Times(seconds)
