"""Readers of image sets: one module per format. Each ends with the call that registers it."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aevlp.core.errors import UserError, did_you_mean, first_few
from aevlp.core.registry import Registry, load_files
from aevlp.data.dataset import ImageTable, Labels
from aevlp.data.files import CLASSES_FILE, MOST_ASKED, folders_in, has_images

if TYPE_CHECKING:
    from aevlp.data.label_file import ParsedLabels

GENERAL = "folder"  # the format that matches every folder with images in its folders, also one that a benchmark was unpacked in


@dataclass(frozen=True)
class ChosenColumns:
    """The columns that the user names; None: detected."""

    image: str | None = None
    label: str | None = None


DETECTED = ChosenColumns()


@dataclass(frozen=True)
class Reader:
    """A format of image sets."""

    name: str
    detects: Callable[[Path], bool]  # whether an existing path looks like this format; cheap
    read: Callable[..., ImageTable]  # of a path and, if it takes columns, of those that the user has chosen
    looks_like: str  # description by which a user recognises the format, for messages and docs
    rank: int = 0  # detection order: specific formats (0 or below) come before those that nearly every folder looks like
    parse: "Callable[[Path], list[ParsedLabels]] | None" = None  # of a file of labels, before its images are looked for
    takes_columns: bool = False  # True if the images and labels are in columns, which the user may name
    official: bool = False  # True for the layout of published files, which no other image set looks like by chance


READERS: Registry[Reader] = Registry("format")


def register(reader: Reader) -> None:
    """Make a format known under its name."""
    READERS.add(reader.name, reader)


def readers() -> list[Reader]:
    """Return every format, in the order of detection."""
    load_files(__name__)
    return sorted(READERS.values(), key=lambda reader: (reader.rank, reader.name))


def read(path: Path, format: str | None = None, chosen: ChosenColumns = DETECTED) -> ImageTable:
    """Return the image set at a path, read as the given format or else as the first that recognises it."""
    try:
        reader = reader_of(path, format)
        if chosen != DETECTED and not reader.takes_columns:
            takers = ", ".join(other.name for other in readers() if other.takes_columns)
            raise UserError(f"--image-column, --label-column: {path} is of the format {reader.name}; only {takers} have columns")
        table = reader.read(path, chosen) if reader.takes_columns else reader.read(path)
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot be read ({error.strerror}); check its permissions") from None
    if not table.names:
        raise UserError(f"{path}: no images in it (read as {reader.name}); add some, or check the path")
    for name in table.classes:
        if not name.isprintable():  # such as a folder name that is not UTF-8
            raise UserError(f"{path}: the class name {name!r} is not readable text; rename it")
    if len(table.classes) < 2:
        raise UserError(
            f"{path}: only one class ('{table.classes[0]}'); a multi-label classifier needs at least two"
            if table.classes
            else f"{path}: no class in it; label some images, or name the classes in a classes.txt beside them"
        )
    return replace(table, location=path)


def reader_of(path: Path, format: str | None = None) -> Reader:
    """Return the reader of the given format, or else the first that recognises the path."""
    known = {reader.name: reader for reader in readers()}
    if format is not None and format not in known:
        raise UserError(f"--format {format}: no such format{did_you_mean(format, known)}; formats: {', '.join(known)}")
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; check the path")
    return known[format] if format is not None else _detected(path, list(known.values()))


def label_matrix(rows: Iterable[tuple[str, Mapping[str, int]]], classes: Sequence[str]) -> Labels:
    """Return int8[N, C] from the known labels of each row, class name -> 1 or -1.

    Each row comes with its place in the user's files, for the error about a class that `classes` lacks.
    """
    cells = LabelCells(classes)
    for place, values in rows:
        cells.add(place, values)
    return cells.matrix(classes)


class LabelCells:
    """The known labels of images, gathered one image at a time: for a million images, few bytes of each stay in memory."""

    def __init__(self, classes: Sequence[str] | None) -> None:
        self.column_of = {name: number for number, name in enumerate(classes or ())}
        """Class name -> column; without `classes` it grows, in the order in which names occur."""
        self.images = 0
        self._is_fixed = classes is not None
        self._rows, self._columns, self._values = array("q"), array("i"), array("b")

    def add(self, place: str, values: Mapping[str, int]) -> None:
        """Add an image, given its place in the user's files and its known labels, class name -> 1 or -1."""
        for name, value in values.items():
            self._rows.append(self.images)
            self._columns.append(self._column(name, place))
            self._values.append(value)
        self.images += 1

    def _column(self, name: str, place: str) -> int:
        if name not in self.column_of:
            if self._is_fixed:
                near = did_you_mean(name, self.column_of)
                raise UserError(f"{place}: class '{name}' is not in {CLASSES_FILE}{near}; correct the name, or add it there")
            self.column_of[name] = len(self.column_of)
        return self.column_of[name]

    def matrix(self, classes: Sequence[str]) -> Labels:
        """Return int8[N, C], the columns in the order of `classes`, which are all that occur and possibly more."""
        place = {name: number for number, name in enumerate(classes)}
        moved = np.array([place[name] for name in self.column_of], np.intp)
        labels = np.zeros((self.images, len(classes)), np.int8)
        labels[np.frombuffer(self._rows, np.int64), moved[np.frombuffer(self._columns, np.int32)]] = self._values
        return labels


def _detected(path: Path, known: list[Reader]) -> Reader:
    for reader in known:
        if reader.detects(path):
            if reader.name == GENERAL:
                _refuse_benchmark_below(path, [reader for reader in known if reader.official])
            return reader
    if path.is_dir() and not has_images(path):
        raise UserError(f"{path}: no images in this folder; add some, or check the path")
    kinds = "; ".join(f"{reader.name} ({reader.looks_like})" for reader in known)
    raise UserError(f"{path}: not an image set of a known kind; known are: {kinds}")


def _refuse_benchmark_below(path: Path, official: list[Reader]) -> None:
    """Raise if a benchmark lies one or two folders below: those folders would be taken for classes."""
    level = [path]
    for _ in range(2):
        level = list(islice((folder for above in level for folder in folders_in(above)), MOST_ASKED))
        detected = {folder: next((reader.name for reader in official if reader.detects(folder)), None) for folder in level}
        found = [f"{folder} looks like {name}" for folder, name in detected.items() if name]
        if found:
            give = "that path" if len(found) == 1 else "one of these paths"
            raise UserError(f"{path}: {first_few(found)}; give {give}, or --format {GENERAL} if its folders are classes")
