"""Files: written atomically, so that one is complete or not there, and read only if it is a regular one."""

import errno
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from io import BufferedReader
from pathlib import Path, PurePath
from typing import IO, Any
from uuid import uuid4

from aevlp.core.errors import UserError, one_line

if sys.platform != "win32":
    import fcntl

SPECIAL = "a pipe, a socket or a device, not a regular file"
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def short_name(path: PurePath) -> str:
    """Return what to call an image set in a title: its folder, or its table with the folder of that."""
    return "/".join(path.parts[-2:]) if path.suffix else path.name


@contextmanager
def whole_file(path: Path, *, tidy: bool = True) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` only when it is complete and on disk.

    If anything goes wrong before, `path` stays as it was. A full disk is a UserError. What killed writers of `path` left is
    removed, unless `tidy` is false, which saves the search in a folder of many files.
    """
    # A random name keeps two writers apart, on one machine or several; the last to finish wins.
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if tidy:
            _remove_leftovers(path)
        with _locked(temporary) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform == "win32":
                file.close()  # an open file cannot be renamed there
            temporary.replace(path)  # while it is locked: it is no leftover
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if (cause := _disk_error(error)) is not None:
            raise cannot_write(path, cause) from error
        raise


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `path`, which does not exist, only when everything is in it."""
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        part.mkdir(parents=True)
        yield part
        part.rename(path)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if (cause := _disk_error(error)) is not None:
            raise cannot_write(path, cause) from error
        raise


def _locked(path: Path) -> IO[bytes]:
    """Return a new file that nobody takes for a leftover while it is open."""
    while True:
        file = path.open("wb")
        if sys.platform != "win32":
            with suppress(OSError):  # the file system has no locks, and so nobody removes it
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # removed before it was locked


def _remove_leftovers(path: Path) -> None:
    """Remove what writers of `path` left half-written that do not live any more."""
    for left in path.parent.glob(f".{escape(path.name)}.*.part"):
        remove_abandoned(left)


def remove_abandoned(part: Path) -> None:
    """Remove a half-written file of `whole_file` if its writer does not live any more.

    The system releases the locks of dead writers. Where there are no locks, the file stays.
    """
    if sys.platform == "win32":
        return
    with suppress(OSError), part.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink()


def _disk_error(error: BaseException | None) -> OSError | None:
    """Return the system's error behind an error: some writers raise their own on top of it."""
    while error is not None and not isinstance(error, OSError | UserError):
        error = error.__context__
    return error if isinstance(error, OSError) else None


def cannot_write(path: Path, error: Exception) -> UserError:
    """Return the error to raise when `path` could not be written."""
    # safetensors raises an error of its own, with the system's number in its text.
    number = error.errno if isinstance(error, OSError) else next(map(int, re.findall(r"os error (\d+)", str(error))), None)
    told = error.strerror if isinstance(error, OSError) else None  # that of a remote address is its own
    reason = told or (os.strerror(number) if number else str(error))
    if number in FULL:
        return UserError(f"{path}: the disk is full ({reason}); free some space and start again, finished work is kept")
    return UserError(f"{path}: cannot be written ({reason}); choose another place")


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; a pipe, a socket or a device, which may never answer or never end, is an OSError.

    So is a name that no file can have.
    """
    try:
        mode = path.stat().st_mode
    except ValueError as error:  # a zero byte, or half of a character
        raise OSError(errno.EINVAL, "no name that a file can have") from error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, SPECIAL)
    return path.open("rb")


def write_text(path: Path, text: str) -> None:
    """Write a text file, atomically."""
    with whole_file(path) as file:
        file.write(text.encode(errors="surrogateescape"))  # file names need not be UTF-8


def write_json(path: Path, value: Any) -> None:
    """Write an indented JSON file, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file; a UserError if there is none."""
    try:
        return json_object(file)
    except ValueError as error:
        raise UserError(f"{file} {error}") from error


def json_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file; a ValueError, the end of a sentence, if there is none."""
    try:
        with open_regular(file) as stream:
            content = json.loads(stream.read().decode(errors="surrogateescape"))  # as `write_text` writes
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot be read as JSON ({one_line(error)})") from error
    if not isinstance(content, dict):
        raise ValueError("is not a JSON object")
    return content
