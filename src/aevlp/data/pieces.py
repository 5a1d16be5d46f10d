"""What an official layout must hold: a missing piece is named with its path and with where it comes from."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path, PurePosixPath

from aevlp.core.errors import UserError
from aevlp.data.classes import some
from aevlp.data.files import is_image

MOST_LOOKED_FOR = 3
"""Missing images that are looked for under another spelling: if files are spelt otherwise, most are."""


def file_of(path: Path, what: str, source: str) -> Path:
    """The path, which is a file; `what` it is and its `source` are for the message if it is not."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: {what}; {source}")
    return path


def folder_of(path: Path, what: str, source: str) -> Path:
    """The path, which is a folder; `what` it is and its `source` are for the message if it is not."""
    if not path.is_dir():
        raise UserError(f"{path}: no such folder: {what}; {source}")
    return path


def missing_files(root: Path, names: Iterable[str]) -> list[str]:
    """Those of the names, relative to the root and with forward slashes, that are no entry of their folder.

    Each folder is listed once: much faster than to ask for a hundred thousand files one by one.
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
    """Raise if any of the images that a list or an annotation names is not there."""
    if missing := missing_files(root, names):
        raise UserError(
            f"{root}: {len(missing):,} of the {len(names):,} images that {named_by} do not exist ({some(missing)}); "
            f"{other_spelling(root, missing)}unpack the images again, completely: {source}"
        )


def other_spelling(root: Path, missing: Sequence[str]) -> str:
    """What to say, before what else to do, of missing images that are there with another suffix or in another case."""
    for path in map(PurePosixPath, missing[:MOST_LOOKED_FOR]):
        folder = root / path.parent
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if is_image(entry.name) and entry.stem.lower() == path.stem.lower():
                return f"there is {entry.name}: rename such files, or "
    return ""


def refuse_empty(images: Collection[object], file: Path, split: str, source: str, what: str = "images") -> None:
    """Raise if a file leaves a part of the set without images, which would then vanish without a word."""
    if not images:
        raise UserError(f"{file}: no {what} to {split} on; {source}")


def unlisted_images(folder: Path, names: Collection[str]) -> int:
    """How many images lie in a folder whose names are not among those that a list or an annotation has."""
    listed = set(names)
    return sum(is_image(entry.name) and entry.name not in listed for entry in folder.iterdir())
