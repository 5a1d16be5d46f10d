"""Seats: each window of a browser has one, which holds images that nobody else gets meanwhile."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from aevlp.inference.review.state import Cells, Mask, ReviewState

HOLD = 600.0  # seconds without a request, after which others get what a seat holds
FORGET = 24 * 3600.0  # seconds without a request, after which a seat is removed
MOST_SEATS = 500
RECENT = 50  # actions that a person's pace is measured on
SECONDS_PER_LABEL, SECONDS_PER_KEY = 0.5, 1.5  # of a person who is not known yet
PRIOR_SECONDS = 30.0  # worth of the first guess
ImageMode = Literal["image", "audit"]


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells of one class that a person looks at together."""

    column: int
    cells: Cells
    accepts: bool
    """Settling the grid accepts what is not marked."""
    reason: str
    wished: int | None
    """The class that the person chose; None: the queue did."""


@dataclass
class Seat:
    """One window of a person's browser."""

    who: str
    seen: float
    grids: list[Grid] = field(default_factory=list)
    """At most two: the one on the screen and the next one."""
    rows: list[int] = field(default_factory=list)
    """At most two images: the one on the screen and the next one."""
    mode: ImageMode = "image"
    """The mode that `rows` were taken for."""
    skipped_cells: set[int] = field(default_factory=set)
    skipped_rows: set[int] = field(default_factory=set)

    def release(self) -> None:
        """Give back everything that it holds."""
        self.grids, self.rows = [], []


@dataclass
class Pace:
    """A person's pace: (answers, keys, seconds) of the last actions."""

    recent: deque[tuple[int, int, float]] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, answers: int, keys: int, seconds: float) -> None:
        """Add an action."""
        self.recent.append((answers, keys, seconds))

    @property
    def rate(self) -> float | None:
        """Answers per minute; None: nothing is known yet."""
        seconds = sum(each[2] for each in self.recent)
        return 60 * sum(each[0] for each in self.recent) / seconds if seconds > 0 else None

    def seconds(self, labels: float, keys: float) -> float:
        """Return how long so many answers with so many keys take this person."""
        expected = sum(_usual_seconds(answers, pressed) for answers, pressed, _ in self.recent)
        factor = (PRIOR_SECONDS + sum(each[2] for each in self.recent)) / (PRIOR_SECONDS + expected)
        return factor * _usual_seconds(labels, keys)


def _usual_seconds(labels: float, keys: float) -> float:
    return SECONDS_PER_LABEL * labels + SECONDS_PER_KEY * keys


class Seats:
    """The seats of a review, by the name that each window has given itself."""

    def __init__(self, state: ReviewState, clock: Callable[[], float] = time.monotonic) -> None:
        self._state, self._clock = state, clock
        self._seats: dict[str, Seat] = {}
        self._paces: dict[str, Pace] = {}

    def seat(self, holder: str, who: str) -> Seat:
        """Return the seat of a window, which is active now. After a long rest it has lost what it held."""
        now = self._clock()
        self._seats = {name: seat for name, seat in self._seats.items() if now - seat.seen < FORGET}
        seat = self._seats.pop(holder, None) or Seat(who, now)
        if now - seat.seen >= HOLD:
            seat.release()
        seat.who, seat.seen = who, now
        self._seats[holder] = seat  # the last in order is the last that was active
        while len(self._seats) > MOST_SEATS:
            del self._seats[next(iter(self._seats))]
        return seat

    def pace(self, who: str) -> Pace:
        """Return how fast a person answers."""
        pace = self._paces.pop(who, None) or Pace()
        self._paces[who] = pace
        while len(self._paces) > MOST_SEATS:
            del self._paces[next(iter(self._paces))]
        return pace

    def people(self) -> list[str]:
        """Return who is active."""
        now = self._clock()
        return sorted({seat.who for seat in self._seats.values() if now - seat.seen < HOLD})

    def held_by_others(self, seat: Seat) -> Mask:
        """Return the images that other active seats hold, [N]."""
        held = np.zeros(len(self._state.table.names), bool)
        now = self._clock()
        for other in self._seats.values():
            if other is not seat and now - other.seen < HOLD:
                held[other.rows] = True
                for grid in other.grids:
                    held[self._state.scores.rows[grid.cells]] = True
        return held
