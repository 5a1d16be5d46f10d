"""The labels of a review in memory: a mirror of the store of answers, which alone counts."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from aevlp.data.annotations import COMPLETE, WHOLE_IMAGE, Rows, ScoreKind
from aevlp.data.answers import ACCEPTED, Action, AnswerStore, GivenAnswer, Kind
from aevlp.data.dataset import ImageTable, rows_of

log = logging.getLogger("aevlp")
ASKED = (ScoreKind.PROPOSED, ScoreKind.CANDIDATE, ScoreKind.DOUBTED)
Mask = NDArray[np.bool_]
Cells = NDArray[np.intp]
"""Indices into the table's scored cells."""


@dataclass(frozen=True)
class CellAnswer:
    """An answer about one label of one image; the column `WHOLE_IMAGE` stands for the image's completeness."""

    row: int
    column: int
    value: int


class ReviewState:
    """The confirmed labels, and the scored cells that are still open. Only training images are asked about."""

    def __init__(self, table: ImageTable, store: AnswerStore) -> None:
        self.table, self.store, self.scores = table, store, table.annotations.scores
        self.keys = store.keys_of(table.root, table.names)
        self._row_of = {key: row for row, key in enumerate(self.keys)}
        self._column_of = {name: column for column, name in enumerate(table.classes)} | {COMPLETE: WHOLE_IMAGE}
        answered, foreign = store.apply(table)
        if foreign:
            log.info("%d answers in %s are about images or classes that this set does not have", foreign, store.path)
        self.labels = answered.labels
        self.positives: NDArray[np.intp] = np.count_nonzero(self.labels == 1, axis=0)
        self.is_complete = np.zeros(len(table.names), bool)
        self.is_complete[list(answered.annotations.complete)] = True
        # An answer that the table itself has is older than the table's scores: a label that it doubts is asked about again.
        given = table.annotations.answers
        self.answered = {cell for cell, answer in answered.annotations.answers.items() if given.get(cell) != answer}
        self.is_audited = np.zeros(len(table.names), bool)
        self.is_train = np.zeros(len(table.names), bool)
        self.is_train[rows_of(table, "train")] = True
        self._by_row = np.argsort(self.scores.rows, kind="stable")
        self._first = np.searchsorted(self.scores.rows[self._by_row], np.arange(len(table.names) + 1))
        self._is_asked = np.isin(self.scores.kinds, ASKED)
        self._is_settled = np.isin(self._places(), [row * len(table.classes) + column for row, column in self.answered])
        self.is_open = self._open(np.arange(len(self.scores)))
        self.audit_version = 0  # changes with every answer about the audit

    def _places(self) -> NDArray[np.int64]:
        return self.scores.rows.astype(np.int64) * len(self.table.classes) + self.scores.columns

    def fingerprint(self) -> str:
        """Return a name for the images, classes and scored cells, which requests name by their numbers."""
        digest = blake2b(digest_size=8)
        for text in (*self.keys, *self.table.classes):
            digest.update(text.encode("utf-8", "surrogateescape") + b"\0")
        digest.update(self._places().tobytes() + self.scores.confidence.tobytes())
        return digest.hexdigest()

    def set_apart(self, rows: Rows) -> None:
        """Keep the images of the audit out of everything else."""
        self.is_audited[rows] = True
        self.is_open = self._open(np.arange(len(self.scores)))

    def rows_named(self, keys: Iterable[str]) -> list[int]:
        """Return the rows of the images that the store names so, without those that this set does not have."""
        return [self._row_of[key] for key in keys if key in self._row_of]

    @property
    def is_reviewed(self) -> Mask:
        """Images that are asked about outside the audit, [N]."""
        reviewed: Mask = self.is_train & ~self.is_audited
        return reviewed

    @property
    def total(self) -> int:
        """Scored cells that are asked about, whether answered or not."""
        return int(np.count_nonzero(self._is_asked & self.is_reviewed[self.scores.rows]))

    def cells_of(self, row: int) -> Cells:
        """Return the scored cells of an image."""
        return self._by_row[self._first[row] : self._first[row + 1]]

    def unanswered(self, row: int) -> Cells:
        """Return the cells of an image that are to be answered, also of one in the audit."""
        cells = self.cells_of(row)
        return cells[self._is_unanswered(cells)]

    def _is_unanswered(self, cells: Cells) -> Mask:
        rows, columns = self.scores.rows[cells], self.scores.columns[cells]
        expected = np.where(self.scores.kinds[cells] == ScoreKind.DOUBTED, 1, 0)
        is_unknown = (self.labels[rows, columns] == expected) & ~self._is_settled[cells]
        unanswered: Mask = self._is_asked[cells] & is_unknown & ~self.is_complete[rows]
        return unanswered

    def _open(self, cells: Cells) -> Mask:
        is_open: Mask = self._is_unanswered(cells) & self.is_reviewed[self.scores.rows[cells]]
        return is_open

    def record(self, who: str, answers: Sequence[CellAnswer], kind: Kind, *, keys: int, seconds: float) -> None:
        """Record an action in the store, and only then in memory."""
        names = self.table.classes
        given = [
            GivenAnswer(self.keys[each.row], COMPLETE if each.column == WHOLE_IMAGE else names[each.column], each.value)
            for each in answers
        ]
        self.store.record(who, given, kind=kind, keys=keys, seconds=seconds)
        self._enter((each.row, each.column, each.value) for each in answers)

    def undo(self, who: str) -> tuple[Action, list[CellAnswer]] | None:
        """Undo a person's last action; return it with its answers about this set. None: there is none."""
        action = self.store.undo(who)
        if action is None:
            return None
        current = self.store.current_about((each.image, each.label) for each in action.answers)
        undone, values = [], []
        for each in action.answers:
            row, column = self._row_of.get(each.image), self._column_of.get(each.label)
            if row is not None and column is not None:
                undone.append(CellAnswer(row, column, each.value))
                values.append((row, column, current.get((each.image, each.label))))
        self._enter(values)
        return action, undone

    def _enter(self, values: Iterable[tuple[int, int, int | None]]) -> None:
        """Enter values of cells; None or 0: as the table has it."""
        touched = set()
        for row, column, value in values:
            touched.add(row)
            (self.answered.add if value else self.answered.discard)((row, column))
            if column == WHOLE_IMAGE:
                self.is_complete[row] = value == ACCEPTED or row in self.table.annotations.complete
                continue
            before, after = self.labels[row, column], value or self.table.labels[row, column]
            self.positives[column] += int(after == 1) - int(before == 1)
            self.labels[row, column] = after
            cells = self.cells_of(row)
            self._is_settled[cells[self.scores.columns[cells] == column]] = bool(value)
        for row in touched:
            cells = self.cells_of(row)
            self.is_open[cells] = self._open(cells)
        self.audit_version += int(self.is_audited[list(touched)].any())
