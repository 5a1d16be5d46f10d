"""The next grid or image for a window: the best of the queue that nobody else looks at."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aevlp.inference.review.queue import suggest_grids, suggest_images
from aevlp.inference.review.seats import Grid, ImageMode, Seat, Seats
from aevlp.inference.review.state import Mask, ReviewState

SUGGESTED = 16  # grids or images that are taken from the queue at once


class Offers:
    """The first grids and images of the queue, which wait to be offered."""

    def __init__(self, state: ReviewState, seats: Seats, audit_rows: Sequence[int], grid_size: int) -> None:
        self._state, self._seats, self._audit_rows, self._grid_size = state, seats, audit_rows, grid_size
        self._waiting: dict[int | None, list[Grid]] = {}  # by the class that was wished for
        self._waiting_rows: list[int] = []

    def grid(self, seat: Seat, wished: int | None) -> Grid | None:
        """Return the best grid for a seat, of one class or of all; None: nothing is left."""
        scores = self._state.scores
        available = self._state.is_open & ~self._seats.held_by_others(seat)[scores.rows]
        for each in seat.grids:
            available[each.cells] = False
        if wished is not None:
            available &= scores.columns == wished
        fresh = available.copy()
        fresh[list(seat.skipped_cells)] = False
        for cells in (fresh, available):  # what was skipped comes again when nothing else is left
            if (best := self._suggested(cells, wished)) is not None:
                return best
            seat.skipped_cells.clear()
        return None

    def _suggested(self, available: Mask, wished: int | None) -> Grid | None:
        """Return the best grid of the available cells. The queue is sorted anew when its first grids are used up."""
        waiting = self._waiting.setdefault(wished, [])
        for each in waiting:
            cells = each.cells[available[each.cells]]
            if 2 * len(cells) > len(each.cells):
                waiting.remove(each)
                return replace(each, cells=cells)
        found = suggest_grids(self._state.scores, available, self._state.positives, size=self._grid_size, most=SUGGESTED)
        grids = [Grid(each.column, each.cells, each.accepts, each.reason, wished) for each in found]
        self._waiting[wished] = grids[1:]
        return grids[0] if grids else None

    def image(self, seat: Seat, mode: ImageMode) -> int | None:
        """Return the best image for a seat, or the next one of the audit; None: nothing is left."""
        free = ~self._seats.held_by_others(seat)
        free[seat.rows] = False
        fresh = free.copy()
        fresh[list(seat.skipped_rows)] = False
        for rows in (fresh, free):  # what was skipped comes again when nothing else is left
            if (best := self._next_audited(rows) if mode == "audit" else self._suggested_row(rows)) is not None:
                return best
            seat.skipped_rows.clear()
        return None

    def _next_audited(self, rows: Mask) -> int | None:
        return next((row for row in self._audit_rows if rows[row] and not self._state.is_complete[row]), None)

    def _suggested_row(self, rows: Mask) -> int | None:
        """Return the best of some images that have open cells or, if none has, the first that is not complete."""
        is_open = self._state.is_open
        for row in self._waiting_rows:
            if rows[row] and is_open[self._state.cells_of(row)].any():
                return row
        found = suggest_images(self._state.scores, is_open & rows[self._state.scores.rows], self._state.positives, most=SUGGESTED)
        self._waiting_rows = [each.row for each in found]
        if found:
            return found[0].row
        # Nothing is proposed in the others, but something may be missing.
        left = np.flatnonzero(rows & self._state.is_reviewed & ~self._state.is_complete)
        return int(left[0]) if len(left) else None
