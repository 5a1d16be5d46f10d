"""The registry of figures, and what a figure returns. A figure's file registers itself with one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelerate import Accelerator

    from aevlp.experiments.bench.timing import Ratio


@dataclass(frozen=True)
class Bench:
    """What every figure works with."""

    folder: Path
    """Its own, empty; removed afterwards."""
    accelerator: Accelerator


@dataclass(frozen=True)
class Row:
    """One measured value, with what it is to be judged by and all that is needed to measure it again."""

    what: str
    against: str  # '': the value stands for itself
    value: float
    low: float
    """The smallest value of a round, as `high` is the greatest."""
    high: float
    unit: str = "ratio"
    at_least: float | None = None
    at_most: float | None = None
    absolute: Mapping[str, float] = field(default_factory=dict)  # 'images/s of ...' -> value
    setting: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, ratio: Ratio, what: str, against: str, **rest: Any) -> Row:
        """The row of a ratio of two things timed side by side."""
        return cls(what, against, ratio.value, ratio.low, ratio.high, **rest)

    @property
    def goal(self) -> str:
        """'>= 0.95', '<= 1.1', or nothing where there is none."""
        if self.at_least is not None:
            return f">= {self.at_least:,g}"
        return "" if self.at_most is None else f"<= {self.at_most:,g}"

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is reached; None where there is none."""
        if not self.goal:
            return None
        return (self.at_least is None or self.value >= self.at_least) and (self.at_most is None or self.value <= self.at_most)


@dataclass(frozen=True)
class Figure:
    """A registered figure: what it is called, what it tells, what measures it."""

    name: str
    summary: str
    measure: Callable[..., list[Row]]  # called as (bench, **setting)
    takes_long: bool  # measured only when it is named


FIGURES: dict[str, Figure] = {}
Measure = Callable[..., list[Row]]


def register_figure(name: str, summary: str, *, takes_long: bool = False) -> Callable[[Measure], Measure]:
    """A decorator that enters a function that measures under `name`."""

    def enter(measure: Measure) -> Measure:
        FIGURES[name] = Figure(name, summary, measure, takes_long)
        return measure

    return enter
