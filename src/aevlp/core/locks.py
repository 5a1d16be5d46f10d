"""Locks between processes; the system lets go of them when their holder dies, however it dies.

Where the platform or the file system has none, every lock on a file is granted: work may then be done twice, but files appear
whole by rename. The right to remove a folder is not.
"""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path

from aevlp.core.files import cannot_write

if sys.platform != "win32":
    import fcntl


class Claim:
    """What is held until it is released, or let go of, or the process ends."""

    def __init__(self, handle: int | None, lock_file: Path | None = None) -> None:
        self._handle, self._lock_file = handle, lock_file
        self._close = None if handle is None else weakref.finalize(self, os.close, handle)

    def release(self) -> None:
        """Lets others have it; a second time does nothing."""
        if self._close is None or not self._close.alive:
            return
        if self._lock_file is not None:
            with suppress(OSError):
                self._lock_file.unlink()  # while it is still held: nobody else can have begun to rely on it
        if sys.platform != "win32" and self._handle is not None:
            with suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)  # closing would not do while a forked child has it open too
        self._close()


def claim_file(path: Path) -> Claim | None:
    """A claim that no other process and no other claim of this one holds at the same time; None while one does.

    `path` is a lock file made for it and removed on release; what a killed process left of it is no obstacle.
    """
    if sys.platform == "win32":
        return Claim(None)
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise cannot_write(path, error) from error
        if not _locked(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            os.close(handle)
            return None
        if _is_at(handle, path):
            return Claim(handle, path)
        os.close(handle)  # its last holder removed it between our opening and our locking


def hold_folder(folder: Path) -> Claim | None:
    """A hold on a folder that many can have, against `claim_folder`; None if it is not there."""
    return _folder(folder, exclusive=False)


def claim_folder(folder: Path) -> Claim | None:
    """A claim on a folder that nobody holds; None while someone does, if that cannot be told, or if it is not there."""
    return _folder(folder, exclusive=True)


def _folder(folder: Path, *, exclusive: bool) -> Claim | None:
    unlocked = None if exclusive else Claim(None)  # what is held may be used; what is claimed may be removed
    if sys.platform == "win32":
        return unlocked
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError:  # a folder that may be used but not listed
        return unlocked
    # A hold waits for a claim: that lasts only until the folder is moved away.
    how = fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH
    if _locked(handle, how, without_locks=not exclusive) and _is_at(handle, folder):
        return Claim(handle)
    os.close(handle)
    return None


def _locked(handle: int, how: int, *, without_locks: bool = True) -> bool:
    """Whether the lock was granted; `without_locks` where there are none."""
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, how)
        except BlockingIOError:
            return False
        except OSError:
            return without_locks
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file or folder still has that name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
