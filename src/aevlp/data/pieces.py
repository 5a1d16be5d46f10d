"""What an official layout must hold: a missing piece is named with its path and with where it comes from."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from aevlp.data.classes import some
from aevlp.errors import UserError


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
            f"unpack the images again, completely: {source}"
        )
