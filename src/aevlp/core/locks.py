"""Locks between processes. The system releases them when their holder dies, even by SIGKILL.

Some file systems have no locks. There every claim on a file is granted: work may be done twice, but files appear whole by
rename. A claim on a folder, which is the right to remove it, is refused there.
"""

import errno
import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from aevlp.core.files import cannot_write

if sys.platform != "win32":
    import fcntl

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


class Claim:
    """An exclusive claim, held until it is released or garbage-collected, or until the process ends."""

    def __init__(self, lock: FileLock | None) -> None:
        self._lock = lock  # None: the file system has no locks

    def release(self) -> None:
        """Remove the lock file and let others claim it; a second call does nothing."""
        if self._lock is None or not self._lock.is_locked:
            return
        # filelock removes the file on Windows only. Elsewhere this is safe while the lock is held: filelock gives nobody a
        # lock on a file that has been removed.
        with suppress(OSError):
            Path(self._lock.lock_file).unlink()
        self._lock.release()


def claim_file(path: Path) -> Claim | None:
    """Return a claim that no other process and no other claim of this one holds; None while one does.

    `path` is the lock file. It is made here and removed on release; one that a killed process left behind does no harm.
    """
    # A marker file in place of a lock, filelock's fallback, would outlive a killed process.
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise cannot_write(path, error) from error
        with suppress(OSError):
            path.unlink()
        return Claim(None)
    return Claim(lock)


class FolderLock:
    """A lock on a folder, held until it is released or garbage-collected, or until the process ends.

    It is made by hand because filelock has no counterpart. Its FileLock is exclusive. Its ReadWriteLock needs an SQLite
    database beside what it guards, which a reader of a read-only store cannot make. `flock` locks the open folder itself: it
    needs no file, and the lock moves with a folder that is renamed.
    """

    def __init__(self, handle: int | None) -> None:
        self._handle = handle  # None: the platform or the file system has no locks
        self._close = None if handle is None else weakref.finalize(self, os.close, handle)

    def release(self) -> None:
        """Let others lock the folder; a second call does nothing."""
        if self._close is None or not self._close.alive:
            return
        if sys.platform != "win32" and self._handle is not None:
            with suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)  # closing is not enough while a forked child has it open too
        self._close()


def hold_folder(folder: Path) -> FolderLock | None:
    """Return a hold on a folder, which many can have and which keeps `claim_folder` out; None if the folder does not exist."""
    return _lock_folder(folder, exclusive=False)


def claim_folder(folder: Path) -> FolderLock | None:
    """Return a claim on a folder that nobody holds; None if somebody does or may, or if the folder does not exist."""
    return _lock_folder(folder, exclusive=True)


def _lock_folder(folder: Path, *, exclusive: bool) -> FolderLock | None:
    without_locks = None if exclusive else FolderLock(None)
    if sys.platform == "win32":
        return without_locks
    try:
        handle = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    except OSError:  # a folder that may be used but not listed
        return without_locks
    try:
        # A hold waits for a claim, which lasts only until the folder has been renamed.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
        is_locked = True
    except OSError as error:
        is_locked = not exclusive and not isinstance(error, BlockingIOError)
    if is_locked and _is_at(handle, folder):
        return FolderLock(handle)
    os.close(handle)
    return None


def _is_at(handle: int, path: Path) -> bool:
    """Return whether an open folder still has that name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
