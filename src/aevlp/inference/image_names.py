"""The image names that PATHs on a command line stand for, as a stream: a million of them are never in memory at once."""

import os
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.core.remote import RemotePath, joined, location
from aevlp.data.files import entries_of, is_hidden, is_image, walk
from aevlp.data.image_files import is_archive, is_image_file, opened
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
        if location(path).is_dir():
            raise UserError(f"{path}: no images in this folder; add some, or check the path")
        if location(path).exists():
            raise UserError(f"{path}: no images in this table; add some rows, or check the path")
        raise UserError(f"{path}: no image matches this pattern; check it, or name a folder to take all of its images")


def count_images(paths: Sequence[str]) -> int | None:
    """Return how many images PATHs stand for; None where only reading them tells: on standard input, and at remote places."""
    if any(path == STANDARD_INPUT or isinstance(location(path), RemotePath) for path in paths):
        return None
    return sum(1 for _ in image_names(paths))


def name_features(paths: Sequence[str]) -> bool:
    """Return whether PATHs name a file of features (.npz), which must then be the only PATH."""
    files = [path for path in paths if Path(path).suffix.lower() == ".npz"]
    if files and len(paths) > 1:
        raise UserError(f"{files[0]}: a file of features must be the only PATH; name it without others")
    return bool(files)


def _names(path: str) -> Iterator[str]:
    place = location(path)
    if not path:
        raise UserError("an empty PATH; name an image, a folder, a pattern or a table")
    if path == STANDARD_INPUT:
        for line in sys.stdin.buffer:  # names need not be UTF-8
            if name := os.fsdecode(line).strip("\r\n"):
                yield name
    elif place.is_dir():
        yield from _matching(place, (ANY_DEPTH,))
    elif place.exists():
        if place.suffix.lower() in SUFFIXES:
            yield from (str(joined(place.parent, name)) for name in table.image_names(place))
        elif is_archive(place):
            is_tar = place.suffix.lower() == ".tar"
            yield from (str(place / name) for name in opened(place).names() if is_image(name) or not is_tar)
        else:
            yield path
    elif is_image_file(place):
        yield path
    elif _is_pattern(path):
        pattern = place.expanduser()
        start = location(pattern.parts[0] + "//") if isinstance(pattern, RemotePath) else Path(pattern.anchor)
        yield from _matching(start, pattern.parts[len(start.parts) :])
    else:
        raise UserError(f"{path}: no such file or folder; check the path")


def _is_pattern(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _matching(folder: Path, parts: Sequence[str]) -> Iterator[str]:
    """Yield the images below `folder` that match the parts of a pattern, sorted within each folder."""
    first, rest = parts[0], parts[1:]
    if first == ANY_DEPTH:
        for inner, _ in walk(folder):
            yield from _matching(inner, rest or ("*",))
    elif not rest:
        yield from (str(folder / name) for name in entries_of(folder)[1] if is_image(name) and fnmatch(name, first))
    elif not _is_pattern(first) or (folder / first).is_dir():
        if (folder / first).is_dir():
            yield from _matching(folder / first, rest)
    else:
        for name in entries_of(folder)[0]:
            if fnmatch(name, first) and not is_hidden(name):
                yield from _matching(folder / name, rest)
