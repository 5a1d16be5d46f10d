"""The image names that PATHs on a command line stand for, as a stream: a million of them are never in memory at once."""

import os
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.data.files import folders_below, folders_in, is_image
from aevlp.data.readers import table
from aevlp.data.table_rows import SUFFIXES

STANDARD_INPUT = "-"
ANY_DEPTH = "**"


def image_names(paths: Sequence[str]) -> Iterator[str]:
    """Yield the images that PATHs stand for, one PATH after the other, each as the user would type it.

    A PATH is a file, a folder (images at any depth, sorted within each folder), a pattern, a table, or - for names on standard
    input. Files that a table or standard input names are not checked here.
    """
    for path in paths:
        try:
            yield from _names(path)
        except OSError as error:
            raise UserError(f"{error.filename or path}: cannot be read ({error.strerror}); check its permissions") from None


def require_images(paths: Sequence[str]) -> None:
    """Refuse a PATH that does not exist or has no image in it. Standard input is not read."""
    for path in paths:
        if path == STANDARD_INPUT or next(image_names([path]), None) is not None:
            continue
        if Path(path).is_dir():
            raise UserError(f"{path}: no images in this folder; add some, or check the path")
        if Path(path).exists():
            raise UserError(f"{path}: no images in this table; add some rows, or check the path")
        raise UserError(f"{path}: no image matches this pattern; check it, or name a folder to take all of its images")


def name_features(paths: Sequence[str]) -> bool:
    """Return whether PATHs name a file of features (.npz), which must then be the only PATH."""
    files = [path for path in paths if Path(path).suffix.lower() == ".npz"]
    if files and len(paths) > 1:
        raise UserError(f"{files[0]}: a file of features must be the only PATH; name it without others")
    return bool(files)


def _names(path: str) -> Iterator[str]:
    location = Path(path)
    if not path:
        raise UserError("an empty PATH; name an image, a folder, a pattern or a table")
    if path == STANDARD_INPUT:
        for line in sys.stdin.buffer:  # names need not be UTF-8
            if name := os.fsdecode(line).strip("\r\n"):
                yield name
    elif location.is_dir():
        yield from _matching(location, (ANY_DEPTH,))
    elif location.exists():
        is_table = location.suffix.lower() in SUFFIXES
        yield from (str(location.parent / name) for name in table.image_names(location)) if is_table else (path,)
    elif _is_pattern(path):
        pattern = location.expanduser()
        yield from _matching(Path(pattern.anchor), pattern.relative_to(pattern.anchor).parts)
    else:
        raise UserError(f"{path}: no such file or folder; check the path")


def _is_pattern(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _matching(folder: Path, parts: Sequence[str]) -> Iterator[str]:
    """Yield the images below `folder` that match the parts of a pattern, sorted within each folder."""
    first, rest = parts[0], parts[1:]
    if first == ANY_DEPTH:
        for inner in folders_below(folder):
            yield from _matching(inner, rest or ("*",))
    elif not rest:
        yield from (str(folder / name) for name in _images(folder) if name == first or fnmatch(name, first))
    elif not _is_pattern(first) or (folder / first).is_dir():
        if (folder / first).is_dir():
            yield from _matching(folder / first, rest)
    else:
        for inner in folders_in(folder):
            if fnmatch(inner.name, first):
                yield from _matching(inner, rest)


def _images(folder: Path) -> list[str]:
    """Return the names of the images directly inside, sorted."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if is_image(entry.name) and not entry.is_dir())
