"""The store of people's answers about an image set: one SQLite file, which holds every action and can undo it.

An action settles any number of labels at once. An answer is about one label of one image, or about a whole image (`COMPLETE`).
The last answer that is not undone counts. Images are named relative to the folder of the file, so that the answers hold for every
table of the same images.

    actions(id, who, at, kind, keys, seconds, is_undone)
    answers(action, image, label, value)
    audit(image, place)
"""

import posixpath
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import numpy as np

from aevlp.core.errors import UserError
from aevlp.core.remote import READ_ONLY, RemotePath, joined
from aevlp.data.annotations import COMPLETE, WHOLE_IMAGE, Annotations, Answer
from aevlp.data.dataset import ImageTable

ANSWERS_FILE = "answers.sqlite"
ACCEPTED, REJECTED, WITHDRAWN = 1, -1, 0  # values of an answer; a withdrawn one counts as never given
WAIT = 30.0  # seconds for another process to finish writing
LATEST = 4e9  # seconds since 1970; a later answer is none
SCHEMA = """
CREATE TABLE IF NOT EXISTS actions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, who TEXT NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL,
    keys INTEGER NOT NULL, seconds REAL NOT NULL, is_undone INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS answers (
    action INTEGER NOT NULL REFERENCES actions(id), image TEXT NOT NULL, label TEXT NOT NULL, value INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS answers_by_action ON answers(action);
CREATE INDEX IF NOT EXISTS answers_by_cell ON answers(image, label);
CREATE TABLE IF NOT EXISTS audit (image TEXT PRIMARY KEY, place INTEGER NOT NULL);
"""
VERSION = 1  # of the tables, in SQLite's `user_version`
Kind = Literal["grid", "image", "bulk", "audit"]


@dataclass(frozen=True)
class GivenAnswer:
    """An answer as a person gives it."""

    image: str  # relative to the folder of the store
    label: str  # `COMPLETE`: the whole image
    value: int  # ACCEPTED, REJECTED or WITHDRAWN


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that counts."""

    image: str
    label: str
    value: int
    who: str
    at: float  # seconds since 1970


@dataclass(frozen=True)
class Action:
    """Something that a person did: a grid settled, an image answered, labels accepted together."""

    number: int
    who: str
    at: float
    kind: str
    keys: int  # clicks and keys
    seconds: float
    answers: tuple[GivenAnswer, ...]


@dataclass(frozen=True)
class Effort:
    """The cost of the answers."""

    actions: int
    answers: int
    keys: int
    seconds: float


def answers_file(data: Path) -> Path:
    """Return where the answers about the image set at `data` are kept by default: in its folder."""
    if isinstance(data, RemotePath):
        raise UserError(f"{data}: {READ_ONLY}; name a file on this machine for the answers with --answers")
    return (data if data.is_dir() else data.parent) / ANSWERS_FILE


def completed_file(data: Path) -> Path:
    """Return a new file for completed labels in the folder of the image set at `data`: answers are looked for there."""
    folder = Path() if isinstance(data, RemotePath) else answers_file(data).parent
    names = chain(["completed.jsonl"], (f"completed-{number}.jsonl" for number in count(2)))
    return next(file for name in names if not (file := folder / name).exists())


class AnswerStore:
    """The answers in one SQLite file. Every call is a transaction; what is recorded is on disk when the call returns."""

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        self.path = path
        if must_exist and not path.is_file():
            raise UserError(f"{path}: no such file of answers; check the path")
        with self._connection() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise UserError(f"{path}: answers of another version of aevlp ({version}); use that version")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(SCHEMA)
            connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        # A connection each time: threads of a server may not share one, and opening it takes less than a millisecond.
        try:
            with closing(sqlite3.connect(self.path, timeout=WAIT)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                with connection:
                    yield connection
        except sqlite3.Error as error:  # a damaged page may be found late
            why = " ".join(str(error).split())
            raise UserError(f"{self.path}: cannot be used as a store of answers ({why}); choose another with --answers") from None

    def key_of(self, root: Path, name: str) -> str:
        """Return an image's name in this store, given its name relative to a folder."""
        return self.keys_of(root, [name])[0]

    def keys_of(self, root: Path, names: Sequence[str]) -> list[str]:
        """Return the names in this store of images that are named relative to a folder; an address is its own name."""
        if isinstance(root, RemotePath):
            return [str(joined(root, name)) for name in names]
        start, folder = root.resolve().as_posix(), f"{self.path.parent.resolve().as_posix().rstrip('/')}/"
        paths = [name if "://" in name else posixpath.normpath(f"{start}/{name}") for name in names]
        # Most images lie below the folder; `relpath` takes ten times as long.
        return [
            path.removeprefix(folder) if path.startswith(folder) else path if "://" in path else posixpath.relpath(path, folder)
            for path in paths
        ]

    def record(self, who: str, answers: Iterable[GivenAnswer], *, kind: Kind, keys: int = 0, seconds: float = 0.0) -> int:
        """Record an action with its answers, and return its number."""
        with self._connection() as connection:
            cursor = connection.execute(
                "INSERT INTO actions(who, at, kind, keys, seconds) VALUES (?, ?, ?, ?, ?)",
                (who, time.time(), kind, keys, seconds),
            )
            number = cursor.lastrowid
            assert number is not None
            connection.executemany(
                "INSERT INTO answers VALUES (?, ?, ?, ?)", [(number, each.image, each.label, each.value) for each in answers]
            )
        return number

    def undo(self, who: str) -> Action | None:
        """Undo a person's last action that is not undone, and return it; None: there is none."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute(
                "SELECT id, who, at, kind, keys, seconds FROM actions WHERE who = ? AND NOT is_undone ORDER BY id DESC LIMIT 1",
                (who,),
            ).fetchone()
            if found is None:
                return None
            connection.execute("UPDATE actions SET is_undone = 1 WHERE id = ?", found[:1])
            rows = connection.execute("SELECT image, label, value FROM answers WHERE action = ?", found[:1]).fetchall()
        number, by, at, kind, keys, seconds = found
        return Action(number, by, at, kind, keys, seconds, tuple(GivenAnswer(*row) for row in rows))

    def current(self) -> list[StoredAnswer]:
        """Return the answers that count, in the order in which they were given."""
        query = """
            SELECT image, label, value, who, at FROM answers JOIN actions ON actions.id = action
            WHERE answers.rowid IN (
                SELECT max(answers.rowid) FROM answers JOIN actions ON actions.id = action
                WHERE NOT is_undone GROUP BY image, label)
            AND value != 0 ORDER BY answers.rowid
        """
        with self._connection() as connection:
            return [self._stored(row) for row in connection.execute(query)]

    def _stored(self, row: tuple[Any, ...]) -> StoredAnswer:
        """Return a row of the database as an answer; refuse values that this code never writes."""
        image, label, value, who, at = row
        is_text = all(isinstance(text, str) for text in (image, label, who))
        if not is_text or value not in (ACCEPTED, REJECTED) or not isinstance(at, int | float) or not 0 <= at < LATEST:
            raise UserError(f"{self.path}: damaged (an answer about {image!r} makes no sense); use a copy from before")
        return StoredAnswer(image, label, int(value), who, at)

    def current_about(self, cells: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return the values that count of some (image, label) cells; cells without an answer are left out."""
        query = """
            SELECT value FROM answers JOIN actions ON actions.id = action
            WHERE image = ? AND label = ? AND NOT is_undone ORDER BY answers.rowid DESC LIMIT 1
        """
        with self._connection() as connection:
            found = {cell: connection.execute(query, cell).fetchone() for cell in cells}
        return {cell: row[0] for cell, row in found.items() if row is not None and row[0] != WITHDRAWN}

    def effort(self) -> Effort:
        """Return what the answers have cost. Undone actions cost too; their answers do not count."""
        with self._connection() as connection:
            actions, keys, seconds = connection.execute(
                "SELECT count(*), coalesce(sum(keys), 0), coalesce(sum(seconds), 0) FROM actions"
            ).fetchone()
            (answers,) = connection.execute(
                "SELECT count(*) FROM answers JOIN actions ON actions.id = action WHERE NOT is_undone"
            ).fetchone()
        return Effort(actions, answers, keys, seconds)

    def audit(self) -> list[str]:
        """Return the images of the audit, in the order in which they are to be looked at; empty: none was drawn."""
        with self._connection() as connection:
            return [image for (image,) in connection.execute("SELECT image FROM audit ORDER BY place")]

    def keep_audit(self, images: Sequence[str]) -> list[str]:
        """Keep the images of an audit, unless one was drawn before; return those that are kept."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("SELECT 1 FROM audit LIMIT 1").fetchone() is None:
                connection.executemany("INSERT INTO audit VALUES (?, ?)", [(image, place) for place, image in enumerate(images)])
        return self.audit()

    def apply(self, table: ImageTable) -> tuple[ImageTable, int]:
        """Return the table with the answers that count, and the number of answers about other images or classes.

        Complete images of the audit become validation images: they are a random sample.
        """
        row_of = {key: row for row, key in enumerate(self.keys_of(table.root, table.names))}
        column_of = {name: column for column, name in enumerate(table.classes)} | {COMPLETE: WHOLE_IMAGE}
        labels, splits = table.labels.copy(), np.array(table.splits, dtype=object)
        complete, answers, foreign = set(table.annotations.complete), dict(table.annotations.answers), 0
        audited = set(self.audit())
        for each in self.current():
            row, column = row_of.get(each.image), column_of.get(each.label)
            if row is None or column is None:
                foreign += 1
                continue
            answers[row, column] = Answer(each.who, datetime.fromtimestamp(each.at, UTC).isoformat(timespec="seconds"))
            if column != WHOLE_IMAGE:
                labels[row, column] = each.value
            elif each.value == ACCEPTED:
                complete.add(row)
                if each.image in audited:
                    splits[row] = "val"
        annotations = Annotations(frozenset(complete), answers, table.annotations.scores)
        truth = None if table.truth is None else np.where(labels == 0, table.truth, labels)
        return replace(table, labels=labels, truth=truth, splits=tuple(splits.tolist()), annotations=annotations), foreign
