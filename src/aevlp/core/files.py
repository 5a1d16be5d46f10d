"""Files that are either whole or not there."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from aevlp.core.errors import UserError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes its name, in place of an older one, only when it is complete and on disk.

    Whatever goes wrong before that leaves the older one, or none. A full disk is a UserError.
    """
    # A name of its own keeps two writers of one file apart, on one machine or several; the last to finish wins.
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if (cause := _disk_error(error)) is not None:
            raise cannot_write(path, cause) from error
        raise


def _disk_error(error: BaseException | None) -> OSError | None:
    """The disk's error behind an error: some writers raise one of their own on top of it."""
    while error is not None and not isinstance(error, OSError | UserError):
        error = error.__context__
    return error if isinstance(error, OSError) else None


def cannot_write(path: Path, error: Exception) -> UserError:
    """What to tell the user when `path` could not be written."""
    # The writer of weights has an error of its own, with the system's number in its text.
    number = error.errno if isinstance(error, OSError) else next(map(int, re.findall(r"os error (\d+)", str(error))), None)
    reason = os.strerror(number) if number else str(error)
    if number in _FULL:
        return UserError(f"{path}: the disk is full ({reason}); free some space and start again, finished work is kept")
    return UserError(f"{path}: cannot be written ({reason}); choose another place")


def write_text(path: Path, text: str) -> None:
    """Writes a text file, whole."""
    with whole_file(path) as file:
        file.write(text.encode(errors="surrogateescape"))  # file names need not be UTF-8


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file, whole, for people to read too."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
