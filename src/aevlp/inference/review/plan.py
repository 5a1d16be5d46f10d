"""The plan of a review: the next grids and images, and how many of them fit into some minutes."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aevlp.inference.review.queue import suggest_grids, suggest_images
from aevlp.inference.review.seats import Pace
from aevlp.inference.review.session import ReviewSession

MOST_SHOWN = 8  # grids and images that are listed


@dataclass(frozen=True)
class Fit:
    """The part of a queue that fits into a budget."""

    count: int  # grids or images
    labels: int
    seconds: float


@dataclass(frozen=True)
class NextGrid:
    """A grid that is worth a look."""

    label: int
    cells: int
    accepts: bool
    reason: str


@dataclass(frozen=True)
class NextImage:
    """An image that is worth a look."""

    row: int
    file: str
    labels: int
    reason: str


@dataclass(frozen=True)
class ReviewPlan:
    """The queue of one window."""

    grids: list[NextGrid]
    images: list[NextImage]
    by_class: Fit
    by_image: Fit


def make_plan(session: ReviewSession, holder: str, who: str, minutes: float) -> ReviewPlan:
    """Return what is next for a window, and what fits into so many minutes at this person's pace."""
    state = session.state
    with session.lock:
        seat = session.seats.seat(holder, who)
        available = state.is_open & ~session.seats.held_by_others(seat)[state.scores.rows]
        positives, pace = state.positives.copy(), session.seats.pace(who)
    grids = suggest_grids(state.scores, available, positives, size=session.grid_size)
    images = suggest_images(state.scores, available, positives)
    open_of = np.bincount(state.scores.rows[available], minlength=len(session.table.names)).tolist()
    return ReviewPlan(
        [NextGrid(each.column, len(each.cells), each.accepts, each.reason) for each in grids[:MOST_SHOWN]],
        [NextImage(each.row, session.table.names[each.row], open_of[each.row], each.reason) for each in images[:MOST_SHOWN]],
        _fit(((len(each.cells), each.cost) for each in grids), pace, 60 * minutes),
        _fit(((open_of[each.row], each.cost) for each in images), pace, 60 * minutes),
    )


def _fit(queue: Iterable[tuple[int, float]], pace: Pace, budget: float) -> Fit:
    """Return how many of the (labels, keys) of a queue fit into a budget in seconds."""
    count, labels, keys = 0, 0, 0.0
    for more_labels, more_keys in queue:
        if pace.seconds(labels + more_labels, keys + more_keys) > budget:
            break
        count, labels, keys = count + 1, labels + more_labels, keys + more_keys
    return Fit(count, labels, round(pace.seconds(labels, keys), 1))
