"""A review that several people share: what each looks at next, their answers, and how far they are."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aevlp.core.seeds import seed_for
from aevlp.data.annotations import WHOLE_IMAGE, ScoreKind
from aevlp.data.answers import ACCEPTED, REJECTED, WITHDRAWN, AnswerStore, Kind
from aevlp.data.dataset import ImageTable
from aevlp.inference.review.offers import Offers
from aevlp.inference.review.seats import Grid, ImageMode, Seat, Seats
from aevlp.inference.review.state import CellAnswer, Mask, ReviewState

if TYPE_CHECKING:
    from aevlp.inference.review.audit import AuditFigures

MOST_AUDITED = 0.25  # share of the training images


class TooLate(Exception):
    """A request that cannot be met, or not any more; its text is one line for the person."""


@dataclass(frozen=True)
class Undone:
    """An action that was undone: the grid or the image to show again, if nobody else has it."""

    kind: str
    answers: int
    grid: Grid | None = None
    marked: tuple[int, ...] = ()
    row: int | None = None


@dataclass(frozen=True)
class Progress:
    """The progress of a review, and the pace of a person."""

    answered: int
    total: int
    rate: float | None  # answers per minute
    seconds_left: float
    people: list[str]
    audited: int
    audit: int


class ReviewSession:
    """The state of a review. Every method may be called by any thread."""

    def __init__(self, table: ImageTable, store: AnswerStore, *, grid: int, audit: int, precision: float) -> None:
        self.state = ReviewState(table, store)
        self.table, self.grid_size, self.precision = table, grid, precision
        self.fingerprint = self.state.fingerprint()
        self.lock = threading.RLock()
        self.seats = Seats(self.state)
        self.audit_rows = self._drawn_audit(audit)
        self.state.set_apart(np.array(self.audit_rows, np.intp))
        self._offers = Offers(self.state, self.seats, self.audit_rows, grid)
        self._figures: tuple[int, AuditFigures | None] = (-1, None)

    def _drawn_audit(self, count: int) -> list[int]:
        """Return the images of the audit, which is drawn before anything is answered outside it, and once."""
        store, table = self.state.store, self.table
        count = min(count, int(MOST_AUDITED * np.count_nonzero(self.state.is_train & ~self.state.is_complete)))
        drawn = store.audit()
        if not drawn and count and len(self.state.scores):
            from aevlp.inference.review.audit import draw_audit  # loads torch, which takes seconds

            rows = draw_audit(store.apply(table)[0], count, seed_for(0, "audit"))
            drawn = store.keep_audit([self.state.keys[row] for row in rows.tolist()])
        return self.state.rows_named(drawn)

    # Grids.

    def grid(self, holder: str, who: str, wished: int | None, *, ahead: bool = False) -> Grid | None:
        """Return the grid that a window shows or, with `ahead`, shows next; None: nothing is left."""
        with self.lock:
            seat = self.seats.seat(holder, who)
            open_cells = self.state.is_open
            kept = [replace(each, cells=each.cells[open_cells[each.cells]]) for each in seat.grids if each.wished == wished]
            seat.grids = [each for each in kept if len(each.cells)]
            place = 1 if ahead else 0
            while len(seat.grids) <= place:
                if (found := self._offers.grid(seat, wished)) is None:
                    return None
                seat.grids.append(found)
            return seat.grids[place]

    def settle(
        self,
        holder: str,
        who: str,
        cells: Sequence[int],
        marked: Sequence[int],
        left: Sequence[int],
        *,
        accepts: bool,
        keys: int,
        seconds: float,
    ) -> int:
        """Answer the cells of a grid: the marked ones are the exceptions, those `left` stay open. Return the number answered."""
        with self.lock:
            seat = self.seats.seat(holder, who)
            chosen = np.array(cells, np.intp)
            if len(chosen) == 0 or chosen.max() >= len(self.state.scores):
                raise TooLate("this grid is not of this image set; reload the page")
            is_free = self.state.is_open[chosen] & ~self.seats.held_by_others(seat)[self.state.scores.rows[chosen]]
            self._take(seat, chosen)
            if not is_free.all():
                raise TooLate("some of these labels are answered already or somebody else looks at them; here are the next")
            exceptions, unsure = set(marked), set(left)
            answers = [
                CellAnswer(
                    int(self.state.scores.rows[cell]),
                    int(self.state.scores.columns[cell]),
                    ACCEPTED if accepts != (cell in exceptions) else REJECTED,
                )
                for cell in chosen.tolist()
                if cell not in unsure
            ]
            seat.skipped_cells |= unsure
            if answers:
                self._record(who, answers, "grid", keys=keys, seconds=seconds)
            return len(answers)

    def _take(self, seat: Seat, cells: np.ndarray) -> None:
        """Remove the grids that hold some of these cells from a seat."""
        seat.grids = [each for each in seat.grids if not np.isin(each.cells, cells).any()]

    def skip_grid(self, holder: str, who: str, cells: Sequence[int]) -> None:
        """Put a grid off until nothing else is left for this window."""
        with self.lock:
            seat = self.seats.seat(holder, who)
            seat.skipped_cells.update(cell for cell in cells if cell < len(self.state.scores))
            self._take(seat, np.array(cells, np.intp))

    # Images.

    def image(self, holder: str, who: str, mode: ImageMode, row: int | None = None, *, ahead: bool = False) -> int | None:
        """Return the image that a window shows, or shows next (`ahead`); `row`: this one. None: nothing is left."""
        with self.lock:
            seat = self.seats.seat(holder, who)
            if seat.mode != mode:
                seat.mode, seat.rows = mode, []
            if row is not None:
                self._check_row(seat, row, mode)
                seat.rows = [row, *(other for other in seat.rows[1:] if other != row)]
            place = 1 if ahead else 0
            while len(seat.rows) <= place:
                if (found := self._offers.image(seat, mode)) is None:
                    return None
                seat.rows.append(found)
            return seat.rows[place]

    def _check_row(self, seat: Seat, row: int, mode: ImageMode) -> None:
        if row >= len(self.table.names) or not self.state.is_train[row]:
            raise TooLate("this image is not among those that are reviewed; go to the next")
        if self.state.is_audited[row] != (mode == "audit"):
            where = "is kept for the audit" if self.state.is_audited[row] else "is not in the audit"
            raise TooLate(f"this image {where}; go to the next")
        if self.seats.held_by_others(seat)[row]:
            raise TooLate("somebody else looks at this image now; go to the next")

    def leave_image(self, holder: str, who: str, row: int) -> None:
        """Put an image off: it comes again when nothing else is left for this window."""
        with self.lock:
            seat = self.seats.seat(holder, who)
            seat.rows = [other for other in seat.rows if other != row]
            if row < len(self.table.names):
                seat.skipped_rows.add(row)

    def answer_image(
        self,
        holder: str,
        who: str,
        mode: ImageMode,
        row: int,
        values: Sequence[tuple[int, int]],
        *,
        complete: bool | None,
        keys: int,
        seconds: float,
    ) -> int:
        """Answer (column, value) labels of an image, and whether it is complete. Return the number of answers.

        To complete an image rejects its proposals that are not answered: whoever does it has seen them.
        """
        with self.lock:
            seat = self.seats.seat(holder, who)
            self._check_row(seat, row, mode)
            answers = [CellAnswer(row, column, value) for column, value in values]
            if complete:
                named = {column for column, _ in values}
                doubted = self.state.scores.kinds == ScoreKind.DOUBTED
                rest = [cell for cell in self.state.unanswered(row).tolist() if not doubted[cell]]
                columns = [int(self.state.scores.columns[cell]) for cell in rest]
                answers += [CellAnswer(row, column, REJECTED) for column in columns if column not in named]
            if complete is not None:
                answers.append(CellAnswer(row, WHOLE_IMAGE, ACCEPTED if complete else WITHDRAWN))
            if answers:
                self._record(who, answers, mode, keys=keys, seconds=seconds)
            return len(answers)

    # Answers of all kinds.

    def _record(self, who: str, answers: Sequence[CellAnswer], kind: Kind, *, keys: int, seconds: float) -> None:
        self.state.record(who, answers, kind, keys=keys, seconds=seconds)
        self.seats.pace(who).add(len(answers), keys, seconds)

    def undo(self, holder: str, who: str) -> Undone | None:
        """Undo a person's last action, and hold what it was about again; None: there is nothing to undo."""
        with self.lock:
            seat = self.seats.seat(holder, who)
            found = self.state.undo(who)
            if found is None:
                return None
            action, answers = found
            rows = list(dict.fromkeys(each.row for each in answers))
            plain = Undone(action.kind, len(answers))
            if not rows or self.seats.held_by_others(seat)[rows].any():
                return plain
            if action.kind in ("image", "audit"):
                return replace(plain, row=rows[0])
            return self._undone_grid(seat, plain, answers) if action.kind == "grid" else plain

    def _undone_grid(self, seat: Seat, undone: Undone, answers: Sequence[CellAnswer]) -> Undone:
        value_of = {(each.row, each.column): each.value for each in answers}
        column = answers[0].column
        cells = [
            cell
            for row, _ in value_of
            for cell in self.state.cells_of(row).tolist()
            if self.state.scores.columns[cell] == column and self.state.is_open[cell]
        ]
        if not cells:
            return undone
        accepts = 2 * sum(each.value == ACCEPTED for each in answers) >= len(answers)
        marked = tuple(cell for cell in cells if (value_of[int(self.state.scores.rows[cell]), column] == ACCEPTED) != accepts)
        wished = seat.grids[0].wished if seat.grids else None
        grid = Grid(column, np.array(cells, np.intp), accepts, "undone: look at it again", wished)
        seat.grids = [grid, *seat.grids[:1]]
        return replace(undone, grid=grid, marked=marked)

    def progress(self, who: str) -> Progress:
        """Return how far the review is and how fast this person is."""
        with self.lock:
            is_open, total = self.state.is_open, self.state.total
            left = int(np.count_nonzero(is_open))
            confidence = self.state.scores.confidence[is_open]
            keys = left / self.grid_size + float(np.minimum(confidence, 1 - confidence).sum())
            pace = self.seats.pace(who)
            audited = int(self.state.is_complete[self.audit_rows].sum())
            return Progress(
                total - left, total, pace.rate, pace.seconds(left, keys), self.seats.people(), audited, len(self.audit_rows)
            )

    def answered_table(self) -> ImageTable:
        """Return the image set with all answers applied, as the store has them."""
        return self.state.store.apply(self.table)[0]

    # The audit, and what it allows.

    def figures(self) -> AuditFigures | None:
        """Return what the audit has measured so far; None: no image of it is complete."""
        with self.lock:
            version = self.state.audit_version
            if self._figures[0] == version:
                return self._figures[1]
            if not self.state.is_complete[self.audit_rows].any():
                return None
        from aevlp.inference.review.audit import measure_audit  # loads torch, which takes seconds

        figures = measure_audit(
            self.answered_table(), np.array(self.audit_rows, np.intp), self.precision, known=self.table.labels == 1
        )
        with self.lock:
            self._figures = version, figures
        return figures

    def above(self, line: float, wished: int | None) -> Mask:
        """Return the open proposals at or above a confidence, of one class or of all, [M]."""
        scores = self.state.scores
        chosen: Mask = self.state.is_open & (scores.kinds == ScoreKind.PROPOSED) & (scores.confidence >= line)
        return chosen if wished is None else chosen & (scores.columns == wished)

    def accept_above(self, holder: str, who: str, wished: int | None, expected: int, *, keys: int, seconds: float) -> int:
        """Accept all open proposals above the audited line, if they are as many as the person was told."""
        figures = self.figures()
        if figures is None or figures.line is None:
            raise TooLate("the audit does not allow to accept labels together; answer more of it")
        with self.lock:
            seat = self.seats.seat(holder, who)
            scores = self.state.scores
            cells = np.flatnonzero(self.above(figures.line, wished) & ~self.seats.held_by_others(seat)[scores.rows])
            if len(cells) != expected:
                raise TooLate(f"there are now {len(cells)} labels above the line and not {expected}; look again and accept")
            answers = [CellAnswer(int(scores.rows[cell]), int(scores.columns[cell]), ACCEPTED) for cell in cells]
            if answers:
                self._record(who, answers, "bulk", keys=keys, seconds=seconds)
            return len(answers)
