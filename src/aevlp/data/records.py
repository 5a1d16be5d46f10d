"""The labels of one image with their states, as files of labels hold them; and the table that such records make."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from math import nan
from pathlib import Path

import numpy as np

from aevlp.data.annotations import COMPLETE, WHOLE_IMAGE, Annotations, Answer, Labels, ScoredCells, ScoreKind, no_scores
from aevlp.data.dataset import ImageTable
from aevlp.data.readers import LabelCells


@dataclass(frozen=True)
class Score:
    """Probability that an image has a label, 0 to 1."""

    confidence: float
    """Probability by all predictors together."""
    predictors: Mapping[str, float] = field(default_factory=dict)
    """Probability by each predictor alone: `teacher`, `model`, or both."""


Scores = Mapping[str, Score]


@dataclass(frozen=True)
class LabelRecord:
    """One image. No class is in two of `observed`, `accepted`, `rejected`, `proposed`, `proposed_absent` and `candidates`."""

    name: str
    """File name, relative to the image set's folder."""
    split: str = "train"
    """train, val or test."""
    observed: tuple[str, ...] = ()
    """Labels that were given; they are never taken away."""
    accepted: tuple[str, ...] = ()
    """Labels that a person has confirmed."""
    rejected: tuple[str, ...] = ()
    """Labels that the image does not have: rejected by a person, or given as negatives."""
    proposed: Scores = field(default_factory=dict)
    """Labels that the image probably has too, the surest first."""
    proposed_absent: Scores = field(default_factory=dict)
    """Labels that the image probably does not have, the surest first."""
    candidates: Scores = field(default_factory=dict)
    """Labels that are not sure enough to be proposed, but worth a look, the surest first."""
    doubted: Scores = field(default_factory=dict)
    """Labels in `observed` or `accepted` that every predictor doubts."""
    is_complete: bool = False
    """Somebody has looked at every class: what is not a label is absent."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """Label -> who accepted or rejected it, and when; `COMPLETE` -> who looked at every class."""

    @property
    def confirmed(self) -> tuple[str, ...]:
        """Labels that the image has for sure: given or accepted."""
        return (*self.observed, *self.accepted)

    @property
    def positives(self) -> tuple[str, ...]:
        """Labels that the image has: the confirmed ones, then the proposed ones."""
        return (*self.confirmed, *self.proposed)

    @property
    def scores(self) -> dict[ScoreKind, Scores]:
        """The scores by their kind."""
        return {
            ScoreKind.PROPOSED: self.proposed,
            ScoreKind.PROPOSED_ABSENT: self.proposed_absent,
            ScoreKind.CANDIDATE: self.candidates,
            ScoreKind.DOUBTED: self.doubted,
        }


def image_table(placed: Iterable[tuple[str, LabelRecord]], root: Path, classes: tuple[str, ...] | None, kind: str) -> ImageTable:
    """Return the table of records, which are taken one at a time. Each comes with its place in the user's files, for messages.

    Without `classes`, these are the names that occur, sorted.
    """
    names, splits, labels = [], [], LabelCells(classes)
    scores = _ScoreCells()
    complete: set[int] = set()
    answers: dict[tuple[int, str], Answer] = {}
    for row, (place, record) in enumerate(placed):
        names.append(record.name)
        splits.append(record.split)
        labels.add(place, dict.fromkeys(record.confirmed, 1) | dict.fromkeys(record.rejected, -1))
        scores.add(row, record)
        if record.is_complete:
            complete.add(row)
        for name in {**dict.fromkeys(record.accepted), **record.answers}:
            answers[row, name] = record.answers.get(name, Answer())
    if classes is None:
        classes = tuple(sorted({*labels.column_of, *scores.number_of}))
    column_of = {name: column for column, name in enumerate(classes)} | {COMPLETE: WHOLE_IMAGE}
    found = {(row, column_of[name]): answer for (row, name), answer in answers.items() if name in column_of}
    return ImageTable(
        root=root,
        names=tuple(names),
        classes=classes,
        labels=labels.matrix(classes),
        splits=tuple(splits),
        kind=kind,
        annotations=Annotations(frozenset(complete), found, scores.cells(column_of)),
    )


class _ScoreCells:
    """Scored cells, gathered one image at a time."""

    def __init__(self) -> None:
        self.number_of: dict[str, int] = {}  # label -> its number here
        self._rows, self._labels, self._kinds, self._confidence = array("i"), array("i"), array("b"), array("f")
        self._predictors: dict[str, array[float]] = {}

    def add(self, row: int, record: LabelRecord) -> None:
        """Add the scored cells of an image."""
        for kind, scores in record.scores.items():
            for name, score in scores.items():
                for predictor, confidence in score.predictors.items():
                    own = self._predictors.setdefault(predictor, array("f"))
                    own.extend(repeat(nan, len(self._rows) - len(own)))
                    own.append(confidence)
                self._rows.append(row)
                self._labels.append(self.number_of.setdefault(name, len(self.number_of)))
                self._kinds.append(kind)
                self._confidence.append(score.confidence)

    def cells(self, column_of: Mapping[str, int]) -> ScoredCells:
        """Return the cells whose labels have a column."""
        if not self._rows:
            return no_scores()
        for own in self._predictors.values():
            own.extend(repeat(nan, len(self._rows) - len(own)))
        columns = np.array([column_of.get(name, -1) for name in self.number_of], np.int32)[np.frombuffer(self._labels, np.int32)]
        cells = ScoredCells(
            rows=np.frombuffer(self._rows, np.int32),
            columns=columns,
            kinds=np.frombuffer(self._kinds, np.int8),
            confidence=np.frombuffer(self._confidence, np.float32),
            predictors={name: np.frombuffer(own, np.float32) for name, own in self._predictors.items()},
        )
        return cells if (columns >= 0).all() else cells.at(columns >= 0)


def records_of(
    names: Sequence[str], splits: Sequence[str], classes: Sequence[str], labels: Labels, annotations: Annotations
) -> Iterator[LabelRecord]:
    """Yield a record per image, given the confirmed labels [N, C] and the annotations of these images."""
    scores = annotations.scores
    order = np.lexsort((-scores.confidence, scores.rows))  # by row, the surest first
    scored, first = scores.at(order), np.searchsorted(scores.rows[order], np.arange(len(names) + 1))
    answered: dict[int, dict[str, Answer]] = {}
    for (row, column), answer in annotations.answers.items():
        answered.setdefault(row, {})[COMPLETE if column == WHOLE_IMAGE else classes[column]] = answer
    for row, name in enumerate(names):
        own = answered.get(row, {})
        positive = [classes[column] for column in np.flatnonzero(labels[row] == 1).tolist()]
        by_kind: dict[int, dict[str, Score]] = {kind: {} for kind in ScoreKind}
        for cell in range(first[row], first[row + 1]):
            values = {who: _number(found[cell]) for who, found in scored.predictors.items() if not np.isnan(found[cell])}
            by_kind[int(scored.kinds[cell])][classes[int(scored.columns[cell])]] = Score(_number(scored.confidence[cell]), values)
        absent, doubted = by_kind[ScoreKind.PROPOSED_ABSENT], by_kind[ScoreKind.DOUBTED]
        known = {classes[column] for column in np.flatnonzero(labels[row]).tolist()}
        yield LabelRecord(
            name=name,
            split=splits[row],
            observed=tuple(label for label in positive if label not in own),
            accepted=tuple(label for label in positive if label in own),
            rejected=tuple(classes[column] for column in np.flatnonzero(labels[row] == -1).tolist()),
            proposed={label: score for label, score in by_kind[ScoreKind.PROPOSED].items() if label not in known},
            proposed_absent={label: absent[label] for label in reversed(absent) if label not in known},
            candidates={label: score for label, score in by_kind[ScoreKind.CANDIDATE].items() if label not in known},
            doubted={label: doubted[label] for label in reversed(doubted) if label in positive},
            is_complete=row in annotations.complete,
            answers=own,
        )


def _number(value: np.float32) -> float:
    """Return the number that a float32 stands for: 0.93, not 0.930000007."""
    return float(f"{value:.6g}")


def table_records(table: ImageTable) -> Iterator[LabelRecord]:
    """Yield a record per image of a table, in its order."""
    return records_of(table.names, table.splits, table.classes, table.labels, table.annotations)
