"""One module per format; each ends with the line that registers it. A new format is one new module here."""

import importlib
import os
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from aevlp.core.errors import UserError, did_you_mean
from aevlp.data.classes import some
from aevlp.data.files import has_images, is_hidden
from aevlp.data.table import ImageTable

GENERAL = "folder"
"""The format that every folder with images in its folders looks like, also the one that a benchmark was unpacked in."""
MOST_ASKED = 50
"""Folders per level that are asked whether a benchmark lies in them: a set of one's own may have ten thousand classes."""


@dataclass(frozen=True)
class Reader:
    """A format of image sets."""

    name: str
    detects: Callable[[Path], bool]
    """Whether a path that exists looks like this format; cheap."""
    read: Callable[[Path], ImageTable]
    looks_like: str
    """For messages and docs, after the name: how a user recognises it."""
    rank: int
    """Formats are asked in this order: the specific ones (0) before those that nearly every folder looks like."""
    official: bool
    """Whether it is the layout of published files, which no folder of a set of one's own looks like by chance."""


_registered: dict[str, Reader] = {}


def register(
    name: str,
    detects: Callable[[Path], bool],
    read: Callable[[Path], ImageTable],
    *,
    looks_like: str,
    rank: int = 0,
    official: bool = False,
) -> None:
    """Make a format known under its name."""
    _registered[name] = Reader(name, detects, read, looks_like, rank, official)


def readers() -> list[Reader]:
    """Every format, in the order in which they are asked."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(_registered.values(), key=lambda reader: (reader.rank, reader.name))


def read(path: Path, format: str | None = None) -> ImageTable:
    """The image set at a path, in the format given or else the first that recognises it."""
    known = {reader.name: reader for reader in readers()}
    if format is not None and format not in known:
        raise UserError(f"unknown format '{format}'{did_you_mean(format, known)}; formats: {', '.join(known)}")
    try:
        if not path.exists():
            raise UserError(f"{path}: no such file or folder; check the path")
        reader = known[format] if format is not None else _detected(path, list(known.values()))
        table = reader.read(path)
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
    return table


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
        level = list(islice((folder for above in level for folder in _folders(above)), MOST_ASKED))
        detected = {folder: next((reader.name for reader in official if reader.detects(folder)), None) for folder in level}
        found = [f"{folder} looks like {name}" for folder, name in detected.items() if name]
        if found:
            give = "that path" if len(found) == 1 else "one of these paths"
            raise UserError(f"{path}: {some(found)}; give {give}, or --format {GENERAL} if its folders are classes")


def _folders(folder: Path) -> list[Path]:
    """The visible folders directly inside, by name; of a folder with many images nothing but the listing is read."""
    with os.scandir(folder) as entries:
        return sorted(Path(entry) for entry in entries if entry.is_dir() and not is_hidden(entry.name))
