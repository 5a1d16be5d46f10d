"""Join what several people and tools have said about the labels of one image set; contradictions stay open.

A statement says that an image has a label, or that it does not, or that it is complete. Somebody who calls an image complete also
says that it has none of the labels that they do not name.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from aevlp.core.remote import RemotePath, joined
from aevlp.data.addresses import FileIndex, refuse_twice
from aevlp.data.annotations import COMPLETE, WHOLE_IMAGE, Annotations, Answer, Labels, State
from aevlp.data.answers import ACCEPTED, AnswerStore
from aevlp.data.dataset import ImageTable
from aevlp.data.label_file import ParsedLabels
from aevlp.data.records import LabelRecord

Cell = tuple[int, int]  # row and column of a table; the column `WHOLE_IMAGE`: the image is complete


@dataclass(frozen=True)
class Statement:
    """One source's word about a cell."""

    source: str
    value: int  # 1: the image has the label or is complete; -1: it has not
    answer: Answer = field(default_factory=Answer)
    is_implied: bool = False  # by completeness

    def __str__(self) -> str:
        return f"{self.word} ({', '.join(part for part in (self.answer.who, self.source) if part)})"

    @property
    def word(self) -> str:
        """The answer in a word."""
        if self.is_implied:
            return "complete with it" if self.value == 1 else "complete without it"
        return "accepted" if self.value == 1 else "rejected"


@dataclass(frozen=True)
class AnswerSource:
    """The claims of one person, file or store about the images of a table."""

    name: str
    statements: dict[Cell, Statement]
    positives: Mapping[int, Set[int]]
    """Row of each complete image -> columns of the labels that it has according to this source."""
    audited: frozenset[int] = frozenset()
    """Rows that were drawn for an audit."""
    foreign: int = 0
    """Answers about images or classes that the table does not have."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Conflict:
    """A cell that sources contradict each other about."""

    row: int
    column: int
    statements: tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class Joined:
    """A table with the statements that nobody contradicts."""

    table: ImageTable
    conflicts: tuple[Conflict, ...]
    changed: Counter[str]
    """`accepted`, `rejected` and `complete` -> number of cells or images whose state is new."""


class RowFinder:
    """Finds the row of a table that a path of somebody else means."""

    def __init__(self, table: ImageTable) -> None:
        self._folders: dict[Path, Path] = {}
        self._paths = [self._place(path) for path in table.paths]
        self._rows = {path: row for row, path in enumerate(self._paths)}

    def _place(self, path: Path) -> Path:
        """Return the path with the links in its folder resolved; each folder is looked at once."""
        if path.parent not in self._folders:
            self._folders[path.parent] = path.parent.resolve()
        return self._folders[path.parent] / path.name

    def rows(self, folder: Path, addresses: Iterable[str], *, has_suffixes: bool = True) -> dict[str, int]:
        """Return the row of each address seen from a folder; if there is no such file, that of the image that ends alike.

        Addresses of other images are left out, as are those that fit several images.
        """
        listed = list(dict.fromkeys(addresses))
        places = {address: self._place(joined(folder, address)) for address in listed}
        found = {address: self._rows[place] for address, place in places.items() if place in self._rows}
        # Whether there is a file at an address of somebody else is not asked.
        lost = [
            address
            for address, place in places.items()
            if address not in found and (isinstance(place, RemotePath) or not place.is_file())
        ]
        if lost:
            row_of = {path.parts: row for row, path in enumerate(self._paths)}
            matches = FileIndex(row_of, has_suffixes=has_suffixes).matches(lost)
            found |= {address: row_of[paths[0]] for address, paths in matches.items() if len(paths) == 1}
        return found


def own_source(table: ImageTable, name: str) -> AnswerSource:
    """Return the answers of people that a table holds already."""
    statements = {
        (row, column): Statement(name, 1 if column == WHOLE_IMAGE else int(table.labels[row, column]), answer)
        for (row, column), answer in table.annotations.answers.items()
        if column == WHOLE_IMAGE or table.labels[row, column] != 0
    }
    positives = {row: frozenset(np.flatnonzero(table.labels[row] == 1).tolist()) for row in table.annotations.complete}
    return AnswerSource(name, statements, positives)


def store_source(store: AnswerStore, name: str, table: ImageTable, finder: RowFinder) -> AnswerSource:
    """Return the answers in a store. People saw the labels of the table, so that a complete image keeps them."""
    column_of = {label: column for column, label in enumerate(table.classes)} | {COMPLETE: WHOLE_IMAGE}
    current, audited, folder = store.current(), store.audit(), store.path.parent
    rows = finder.rows(folder, [*audited, *(each.image for each in current)])
    refuse_twice(list(rows.values()), list(rows), store.path)
    statements: dict[Cell, Statement] = {}
    foreign = 0
    for each in current:
        row, column = rows.get(each.image), column_of.get(each.label)
        if row is None or column is None:
            foreign += 1
            continue
        at = datetime.fromtimestamp(each.at, UTC).isoformat(timespec="seconds")
        statements[row, column] = Statement(name, each.value, Answer(each.who, at))
    positives = {
        row: set(np.flatnonzero(table.labels[row] == 1).tolist())
        for (row, column), statement in statements.items()
        if column == WHOLE_IMAGE and statement.value == ACCEPTED
    }
    for (row, column), statement in statements.items():
        if row in positives and column != WHOLE_IMAGE:
            positives[row] = positives[row] | {column} if statement.value == ACCEPTED else positives[row] - {column}
    drawn = frozenset(rows[image] for image in audited if image in rows)
    return AnswerSource(name, statements, positives, drawn, foreign)


def file_source(parsed: ParsedLabels, table: ImageTable, finder: RowFinder, states: Labels) -> AnswerSource:
    """Return what a label file says beyond the table, whose `states` [N, C] are given."""
    name = parsed.file.name
    column_of = {label: column for column, label in enumerate(table.classes)}
    unknown = [label for label in table.classes if parsed.classes is not None and label not in parsed.classes]
    records = [record for _, record in parsed.placed]
    rows = finder.rows(parsed.file.parent, (record.name for record in records), has_suffixes=parsed.has_suffixes)
    met = [(rows[record.name], record) for record in records if record.name in rows]
    refuse_twice([row for row, _ in met], [record.name for _, record in met], parsed.file)
    foreign = sum(_size(record) for record in records if record.name not in rows)
    statements: dict[Cell, Statement] = {}
    positives = {}
    for row, record in met:
        for label, state in _confirmed(record):
            column = column_of.get(label)
            if column is None:
                foreign += state != State.OBSERVED
            elif not _is_repeated(state, answer := record.answers.get(label, Answer()), states, table, (row, column)):
                statements[row, column] = Statement(name, -1 if state == State.REJECTED else 1, answer)
        if record.is_complete and not unknown:
            statements[row, WHOLE_IMAGE] = Statement(name, 1, record.answers.get(COMPLETE, Answer(parsed.who)))
            positives[row] = frozenset(column_of[label] for label in record.confirmed if label in column_of)
    lost = sum(record.is_complete for _, record in met) if unknown else 0
    notes = (
        (f"{name}: {lost} images are called complete, but the file lacks {len(unknown)} classes; they stay as they are",)
        if lost
        else ()
    )
    return AnswerSource(name, statements, positives, foreign=foreign, notes=notes)


def _confirmed(record: LabelRecord) -> Iterable[tuple[str, State]]:
    for state, labels in ((1, record.observed), (2, record.accepted), (-1, record.rejected)):
        for label in labels:
            yield label, State(state)


def _size(record: LabelRecord) -> int:
    return len(record.accepted) + len(record.rejected) + record.is_complete


def _is_repeated(state: State, answer: Answer, states: Labels, table: ImageTable, cell: Cell) -> bool:
    """Return whether a file says about a label only what the table says too."""
    before = states[cell]
    if state == State.OBSERVED:
        return before in (State.OBSERVED, State.ACCEPTED)
    return bool(state == before) and answer in (Answer(), table.annotations.answers.get(cell))


def join(table: ImageTable, sources: Sequence[AnswerSource]) -> Joined:
    """Return the table with the statements of all sources; where they contradict each other, it stays as it is."""
    statements: defaultdict[Cell, list[Statement]] = defaultdict(list)
    for source in sources:
        for cell, statement in source.statements.items():
            statements[cell].append(statement)
    for cell, implied in _implied(table, sources, statements).items():
        # An image that keeps its labels is no answer about each of them, unless somebody rejects one.
        if any(statement.value == -1 for statement in (*statements.get(cell, ()), *implied)):
            statements[cell] += implied
    conflicts = tuple(
        Conflict(row, column, tuple(said))
        for (row, column), said in sorted(statements.items())
        if len({statement.value for statement in said}) > 1
    )
    open_cells, open_rows = {(each.row, each.column) for each in conflicts}, {each.row for each in conflicts}
    labels, complete, answers = table.labels.copy(), set(table.annotations.complete), dict(table.annotations.answers)
    changed: Counter[str] = Counter()
    for (row, column), said in statements.items():
        # An image with an open label has not been looked at completely.
        if (row, column) in open_cells or (column == WHOLE_IMAGE and row in open_rows):
            continue
        value, answer = said[0].value, max((statement.answer for statement in said), key=lambda each: (each.who != "", each.at))
        if column == WHOLE_IMAGE:
            changed["complete"] += value == 1 and row not in complete
            complete |= {row} if value == 1 else set()
        else:
            is_new = labels[row, column] != value or (value == 1 and (row, column) not in answers)
            changed["accepted" if value == 1 else "rejected"] += bool(is_new)
            labels[row, column] = value
        answers[row, column] = answers.get((row, column), answer) if answer == Answer() else answer
    splits = list(table.splits)
    for row in frozenset().union(*(source.audited for source in sources)) & complete:
        splits[row] = "val"  # a random sample
    truth = None if table.truth is None else np.where(labels == 0, table.truth, labels)
    annotations = Annotations(frozenset(complete), answers, table.annotations.scores)
    return Joined(replace(table, labels=labels, truth=truth, splits=tuple(splits), annotations=annotations), conflicts, changed)


def _implied(
    table: ImageTable, sources: Sequence[AnswerSource], statements: Mapping[Cell, list[Statement]]
) -> dict[Cell, list[Statement]]:
    """Return what sources say, by calling an image complete, about labels that they do not answer but the table or others do."""
    named: defaultdict[int, set[int]] = defaultdict(set)
    for row, column in statements:
        if column != WHOLE_IMAGE:
            named[row].add(column)
    found: defaultdict[Cell, list[Statement]] = defaultdict(list)
    for source in sources:
        for row, positives in source.positives.items():
            whole = source.statements.get((row, WHOLE_IMAGE))
            answer = Answer() if whole is None else whole.answer
            for column in named[row].union(np.flatnonzero(table.labels[row] == 1).tolist()):
                if (row, column) not in source.statements:
                    value = 1 if column in positives else -1
                    found[row, column].append(Statement(source.name, value, answer, is_implied=True))
    return found
