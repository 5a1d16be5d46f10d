"""Find and read the files of an image set: images, text, `classes.txt`, and the pieces of a published layout."""

import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path, PurePath, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from aevlp.core.errors import UserError, first_few
from aevlp.core.remote import RemotePath

CLASSES_FILE = "classes.txt"
IMAGE_SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in ("jpg", "jpeg", "jpe", "jfif", "png", "gif", "bmp", "tif", "tiff", "webp", "ppm", "pgm", "pbm", "jp2")
)
MOST_ASKED = 50  # number of folders per level that are searched for a layout: an image set may have ten thousand classes
MOST_LOOKED_FOR = 3  # number of missing images that are looked for under another spelling: if files are spelt otherwise, most are


def is_hidden(name: str) -> bool:
    """Return whether a file or folder was left by a file manager or a tool, not by the user."""
    return name.startswith(".") or name == "__MACOSX"


def is_image(name: str) -> bool:
    """Return whether a file name is that of an image."""
    return PurePath(name).suffix.lower() in IMAGE_SUFFIXES and not is_hidden(PurePath(name).name)


def entries_of(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the other entries directly inside, each sorted.

    One listing tells them apart, without a query for each.
    """
    if isinstance(folder, RemotePath):
        found = folder.entries()
    else:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir()) for entry in entries)
    return [name for name, is_folder in found if is_folder], [name for name, is_folder in found if not is_folder]


def folders_in(folder: Path) -> list[Path]:
    """Return the visible folders directly inside, sorted by name."""
    return [folder / name for name in entries_of(folder)[0] if not is_hidden(name)]


def images_in(folder: Path) -> list[Path]:
    """Return the images directly inside, sorted by name."""
    images = [folder / name for name in entries_of(folder)[1] if is_image(name)]
    return images if isinstance(folder, RemotePath) else [path for path in images if path.is_file()]


def walk(folder: Path, above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[tuple[Path, list[str]]]:
    """Yield each visible folder at any depth, the folder itself first, with the names of its files, sorted.

    Links are followed, except one to a folder that it lies in: `above` are the folders on the way here. A folder that may not be
    read is an OSError.
    """
    if not isinstance(folder, RemotePath):
        status = folder.stat()
        if (here := (status.st_dev, status.st_ino)) in above:
            return
        above |= {here}
    folders, files = entries_of(folder)
    yield folder, files
    for name in folders:
        if not is_hidden(name):
            yield from walk(folder / name, above)


def images_below(folder: Path) -> Iterator[Path]:
    """Yield the images inside at any depth, in no particular order."""
    for place, files in walk(folder):
        yield from (place / name for name in files if is_image(name))


def is_set_of(path: Path, suffix: str) -> bool:
    """Return whether this is a file with that suffix, or a folder with some, at most two levels below, and no images.

    Images beside such files are the set. Of each level, only the first folders are looked at.
    """
    if not path.is_dir():
        return path.suffix.lower() == suffix and path.is_file()
    level, found = [path], False
    for _ in range(3):
        below: list[Path] = []
        for place in level:
            folders, files = entries_of(place)
            visible = [name for name in files if not is_hidden(name)]
            if any(map(is_image, visible)):
                return False
            found = found or any(PurePath(name).suffix.lower() == suffix for name in visible)
            below += [place / name for name in folders if not is_hidden(name)]
        level = below[:MOST_ASKED]
    return found


def files_of(path: Path, suffix: str) -> tuple[Path, list[str]]:
    """Return a folder and the names of its files with that suffix, at any depth, sorted; of a file, its folder and its name."""
    if not path.is_dir():
        return path.parent, [path.name]
    found = (place / name for place, files in walk(path) for name in files if not is_hidden(name))
    names = sorted(file.relative_to(path).as_posix() for file in found if file.suffix.lower() == suffix)
    if not names:
        raise UserError(f"{path}: no {suffix} file in it; check the path")
    return path, names


def has_images(folder: Path) -> bool:
    """Return whether there is any image inside at any depth."""
    return next(images_below(folder), None) is not None


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark; line ends stay as they are."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def read_lines(path: Path, *, newline: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their ends, one at a time; `newline` is that of `open`."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield from file
    except UnicodeDecodeError:
        read_text(path)  # raises with the byte's place in the whole file; this error counts from the last buffer
        raise


def fixed_classes(folder: Path) -> tuple[str, ...] | None:
    """Return the names in `folder/classes.txt`, one per line, in their order; None without such a file."""
    path = folder / CLASSES_FILE
    if not path.is_file():
        return None
    line_of: dict[str, int] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        name = line.strip()
        if name in line_of:
            raise UserError(f"{path}, line {number}: '{name}' is already on line {line_of[name]}; remove one of them")
        if name:
            line_of[name] = number
    if not line_of:
        raise UserError(f"{path}: no class names in it; write one per line, or remove the file")
    return tuple(line_of)


# The pieces of a published layout. Messages name a missing piece, its path, and the `source` that it comes from.


def require_file(path: Path, what: str, source: str) -> Path:
    """Return the path of a file; raise if it is missing. `what` tells the user what the file holds."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: {what}; {source}")
    return path


def require_folder(path: Path, what: str, source: str) -> Path:
    """Return the path of a folder; raise if it is missing. `what` tells the user what the folder holds."""
    if not path.is_dir():
        raise UserError(f"{path}: no such folder: {what}; {source}")
    return path


def holds_text(array: NDArray[np.generic]) -> bool:
    """Return whether an array of text has only characters: numpy takes any number for one, and Python fails on it later."""
    if array.dtype.kind != "U":
        return True
    numbers = np.frombuffer(array.tobytes(), np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    return bool((numbers <= sys.maxunicode).all())


def missing_files(root: Path, names: Iterable[str]) -> list[str]:
    """Return the names that do not exist; names are relative to the root, with forward slashes.

    Each folder is listed once, which is much faster than one query per file for a hundred thousand files.
    """
    listed: dict[PurePosixPath, set[str]] = {}
    missing = []
    for name in names:
        path = PurePosixPath(name)
        if path.parent not in listed:
            folder = root / path.parent
            listed[path.parent] = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
        if path.name not in listed[path.parent]:
            missing.append(name)
    return missing


def refuse_missing_images(root: Path, names: tuple[str, ...], named_by: str, source: str) -> None:
    """Raise if an image that a list or an annotation names does not exist."""
    if missing := missing_files(root, names):
        raise UserError(
            f"{root}: {len(missing):,} of the {len(names):,} images that {named_by} do not exist ({first_few(missing)}); "
            f"{other_spelling(root, missing)}unpack the images again, completely: {source}"
        )


def other_spelling(root: Path, missing: Sequence[str]) -> str:
    """Return advice, for the middle of a message, if missing images exist with another suffix or in another case."""
    for path in map(PurePosixPath, missing[:MOST_LOOKED_FOR]):
        folder = root / path.parent
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if is_image(entry.name) and entry.stem.lower() == path.stem.lower():
                return f"there is {entry.name}: rename such files, or "
    return ""


def refuse_empty(images: Collection[object], file: Path, split: str, source: str, what: str = "images") -> None:
    """Raise if a file names no images for a split, which would otherwise be left out silently."""
    if not images:
        raise UserError(f"{file}: no {what} to {split} on; {source}")


def refuse_repeated(names: Iterable[str], where: object, advice: str, what: str = "images") -> None:
    """Raise if a name occurs more than once; `where` opens the message and `advice` ends it."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise UserError(f"{where}: {what} that occur more than once: {len(repeated):,} ({first_few(repeated)}); {advice}")


def unlisted_images(folder: Path, names: Collection[str]) -> int:
    """Return the number of images in a folder that are not among the names."""
    listed = set(names)
    return sum(is_image(entry.name) and entry.name not in listed for entry in folder.iterdir())
