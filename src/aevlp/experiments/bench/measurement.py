"""Timing of several things side by side, the measurements made of it, and the registry of the figures that measure.

Other load on the machine affects alike what is timed side by side.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from accelerate import Accelerator

from aevlp.core.registry import Registry

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


@dataclass(frozen=True)
class Bench:
    """The place and the device that a figure is measured with."""

    folder: Path  # empty, the figure's own, removed afterwards
    accelerator: Accelerator


@dataclass(frozen=True)
class Measurement:
    """One measured value, with its goal and all that is needed to measure it again."""

    what: str
    against: str  # '': the value stands for itself
    value: float
    low: float  # the smallest value of a round
    high: float  # the greatest value of a round
    unit: str = "ratio"
    at_least: float | None = None
    at_most: float | None = None
    absolute: Mapping[str, float] = field(default_factory=dict)  # 'images/s of ...' -> value
    setting: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, ratio: Ratio, what: str, against: str, **rest: Any) -> Measurement:
        """Return the measurement of a ratio of two things timed side by side."""
        return cls(what, against, ratio.value, ratio.low, ratio.high, **rest)

    @property
    def goal(self) -> str:
        """'>= 0.95', '<= 1.1', or '' without a goal."""
        if self.at_least is not None:
            return f">= {self.at_least:,g}"
        return "" if self.at_most is None else f"<= {self.at_most:,g}"

    @property
    def is_met(self) -> bool | None:
        """True if the goal is reached; None without a goal."""
        if not self.goal:
            return None
        return (self.at_least is None or self.value >= self.at_least) and (self.at_most is None or self.value <= self.at_most)


def rates(
    times: Times, ours: str, others: Iterable[str], *, images: int, labels: tuple[str, str, str], **rest: Any
) -> list[Measurement]:
    """Return a measurement per other way: the rate of `ours` divided by that of the other.

    `labels`: the name of the measurement ('rate of scoring') and of the two rates in images/s ('scored', 'of the bare teacher').
    """
    what, our_rate, other_rate = labels

    def absolute(other: str) -> dict[str, float]:
        names = {f"images/s {our_rate}": ours, f"images/s {other_rate}": other}
        return {name: times.part(images, way).value for name, way in names.items()}

    return [Measurement.of(times.ratio(other, ours), what, other, absolute=absolute(other), **rest) for other in others]


Measure = Callable[..., list[Measurement]]


@dataclass(frozen=True)
class SpeedFigure:
    """A registered figure: its name, its summary and the function that measures it."""

    name: str
    summary: str
    measure: Measure  # called as (bench, **setting)
    takes_long: bool  # measured only when it is named


FIGURES: Registry[SpeedFigure] = Registry("figure")


def register_figure(name: str, summary: str, *, takes_long: bool = False) -> Callable[[Measure], Measure]:
    """Return a decorator that registers a measuring function under `name`."""

    def register(measure: Measure) -> Measure:
        FIGURES.add(name, SpeedFigure(name, summary, measure, takes_long))
        return measure

    return register
