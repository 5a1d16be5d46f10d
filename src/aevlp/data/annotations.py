"""The state of each label of each image: given, answered by a person, proposed by a predictor, or not looked at.

A table's `labels` hold what is confirmed. `Annotations` hold the rest: who confirmed it, what is proposed and how sure the
predictors are, and which images are complete. Cells are named by their row and column in the table, and only those are kept of
which something is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
Labels = NDArray[np.int8]  # int8[N, C]: 1 a confirmed positive, 0 unknown, -1 a confirmed negative
COMPLETE = ""  # in place of a label: the answer is that every class has been looked at
WHOLE_IMAGE = -1  # column of the answer that an image is complete


class State(IntEnum):
    """The state of one label of one image."""

    REJECTED = -1
    """Confirmed to be absent: by a person, or given as a negative."""
    UNSEEN = 0
    """Nobody has looked, and no predictor proposes it."""
    OBSERVED = 1
    """Given with the image set."""
    ACCEPTED = 2
    """Confirmed by a person."""
    PROPOSED = 3
    """Proposed by the predictors; nobody has confirmed it."""


class ScoreKind(IntEnum):
    """The reason why a cell has a score."""

    PROPOSED = 0
    """The image probably has the label."""
    PROPOSED_ABSENT = 1
    """The image probably does not have the label."""
    CANDIDATE = 2
    """Not sure enough to be proposed, but among the first to look at."""
    DOUBTED = 3
    """A confirmed label that every predictor doubts."""


@dataclass(frozen=True)
class Answer:
    """An answer of a person: who gave it, and when (ISO 8601, UTC); empty: not known."""

    who: str = ""
    at: str = ""


@dataclass(frozen=True, eq=False)
class ScoredCells:
    """Cells that predictors have scored, M in all and in any order."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    kinds: NDArray[np.int8]  # a `ScoreKind` each
    confidence: NDArray[np.float32]  # 0 to 1, by all predictors together
    predictors: Mapping[str, NDArray[np.float32]]  # predictor -> its own confidence; NaN: not known

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, kind: ScoreKind) -> "ScoredCells":
        """Return the cells of one kind."""
        return self.at(self.kinds == kind)

    def at(self, chosen: NDArray[np.bool_] | NDArray[np.intp], rows: NDArray[np.int32] | None = None) -> "ScoredCells":
        """Return some of the cells; `rows` [M] are other names of all cells' rows."""
        values = {name: confidence[chosen] for name, confidence in self.predictors.items()}
        rows = self.rows if rows is None else rows
        return ScoredCells(rows[chosen], self.columns[chosen], self.kinds[chosen], self.confidence[chosen], values)


def no_scores() -> ScoredCells:
    """Return no scored cell."""
    empty = np.zeros(0, np.int32)
    return ScoredCells(empty, empty, empty.astype(np.int8), empty.astype(np.float32), {})


@dataclass(frozen=True, eq=False)
class Annotations:
    """Everything that is known about the images of a table beyond their confirmed labels."""

    complete: frozenset[int] = frozenset()
    """Rows of the images of which somebody has looked at every class: what is not positive is absent."""
    answers: Mapping[tuple[int, int], Answer] = field(default_factory=dict)
    """(row, column) -> who answered; the column `WHOLE_IMAGE` stands for the image's completeness."""
    scores: ScoredCells = field(default_factory=no_scores)

    def part(self, rows: Rows) -> "Annotations":
        """Return the annotations of some rows, in this order."""
        answered = np.array([row for row, _ in self.answers], np.intp)
        complete = np.array(list(self.complete), np.intp)
        moved = np.full(max(each.max(initial=-1) for each in (rows, answered, complete, self.scores.rows)) + 1, -1, np.int32)
        moved[rows] = np.arange(len(rows), dtype=np.int32)
        kept = moved[complete]
        answers = {
            (row, column): answer
            for row, ((_, column), answer) in zip(moved[answered].tolist(), self.answers.items(), strict=True)
            if row >= 0
        }
        scored = moved[self.scores.rows]
        return Annotations(frozenset(kept[kept >= 0].tolist()), answers, self.scores.at(scored >= 0, scored))

    def of_classes(self, columns: Rows) -> "Annotations":
        """Return the annotations of some columns, in this order."""
        place = {int(column): number for number, column in enumerate(columns)} | {WHOLE_IMAGE: WHOLE_IMAGE}
        answers = {(row, place[column]): answer for (row, column), answer in self.answers.items() if column in place}
        scores = self.scores.at(np.isin(self.scores.columns, columns))
        moved = np.array([place[column] for column in scores.columns.tolist()], np.int32)
        return Annotations(self.complete, answers, replace(scores, columns=moved))

    def confirmed(self, labels: Labels) -> NDArray[np.bool_]:
        """Return the positives among labels [N, C] that a person has looked at: answered ones, and those of complete images."""
        found = np.repeat((labels != 0).all(1, keepdims=True), labels.shape[1], axis=1)
        found[list(self.complete)] = True
        for row, column in self.answers:
            if column != WHOLE_IMAGE:
                found[row, column] = True
        found &= labels == 1
        return found

    def states(self, labels: Labels) -> Labels:
        """Return the `State` of each cell, int8 [N, C], given the table's confirmed labels."""
        found: Labels = labels.copy()
        proposed = self.scores.of(ScoreKind.PROPOSED)
        unknown = labels[proposed.rows, proposed.columns] == 0
        found[proposed.rows[unknown], proposed.columns[unknown]] = State.PROPOSED
        for row, column in self.answers:
            if column != WHOLE_IMAGE and found[row, column] == State.OBSERVED:
                found[row, column] = State.ACCEPTED
        return found


NO_ANNOTATIONS = Annotations()
"""Only the confirmed labels are known."""
