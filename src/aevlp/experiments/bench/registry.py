"""The registry of figures, and what a figure returns. A figure's file registers itself with one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from aevlp.core.registry import Registry
from aevlp.experiments.bench.timing import Ratio, Times


@dataclass(frozen=True)
class Bench:
    """The place and the device that a figure is measured with."""

    folder: Path
    """Empty, the figure's own, removed afterwards."""
    accelerator: Accelerator


@dataclass(frozen=True)
class Measurement:
    """One measured value, with its goal and all that is needed to measure it again."""

    what: str
    against: str  # '': the value stands for itself
    value: float
    low: float
    """The smallest value of a round; `high` is the greatest."""
    high: float
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
