"""The image files that earlier commands have read: their digests, and why those that cannot be read cannot.

A file is known by its path, its size and the time of its last change, so that a set of known images costs a look at its folders
and not at its bytes. The memory is one SQLite file beside the stores. Without it, everything is only slower.

A file that changes while it is read is not remembered: its digest would be filed under the size and time of another content. Nor
is one that was changed just before, since the clock of a file system may show the next change at the same time.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from aevlp.core.remote import RemotePath, joined
from aevlp.core.threads import in_threads
from aevlp.data.dataset import Paths
from aevlp.data.fingerprint import DIGEST, Digests
from aevlp.data.image_files import ARCHIVE, Stamp, stamp_of

FILE = "files.sqlite"
AT_ONCE = 500  # files of a query
PATIENCE = 60.0  # seconds to wait for another process that writes
TICK = 2 * 10**9  # nanoseconds, of the coarsest clock of a file system (FAT)
_TABLE = "CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, size, changed, digest BLOB, wrong TEXT) WITHOUT ROWID"
_ENTER = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)"
log = logging.getLogger("aevlp")

Stamps = npt.NDArray[np.int64]
"""[N, 2]: the size of each file and the time of its last change in nanoseconds; -1 if it is not there."""


@dataclass(frozen=True)
class KnownFiles:
    """The files of an image set, and what is known of them."""

    paths: Paths
    memory: Path | None  # folder of the memory; None remembers nothing
    looked_at: int  # when the stamps were taken, before the content was read; nanoseconds
    stamps: Stamps
    digests: Digests  # b"" if the file is not known
    is_readable: npt.NDArray[np.bool_]  # [N]; False if that is not known

    def remember(self, unreadable: Mapping[int, str]) -> None:
        """Remember the digests, which are all known now, and why some images cannot be read."""
        is_settled = (self.stamps[:, 0] >= 0) & (abs(self.stamps[:, 1] - self.looked_at) > TICK)
        rows = np.flatnonzero(~self.is_readable & (self.digests != b"") & is_settled)
        rows = rows[(_look_at(self.paths, rows) == self.stamps[rows]).all(axis=1)]
        if not len(rows):
            return
        entries = (
            (key, *self.stamps[row].tolist(), self.digests[row].ljust(DIGEST, b"\0"), unreadable.get(int(row)))
            for part in (rows[first : first + AT_ONCE] for first in range(0, len(rows), AT_ONCE))
            for row, key in zip(part, _keys(self.paths, part), strict=True)
        )
        _with_table(self.memory, lambda table: table.executemany(_ENTER, entries))


def recall(paths: Paths, memory: Path | None) -> KnownFiles:
    """Return what is known of files as they are now."""
    looked_at, stamps = time.time_ns(), _look_at(paths, range(len(paths)))
    found = KnownFiles(paths, memory, looked_at, stamps, np.zeros(len(paths), f"S{DIGEST}"), np.zeros(len(paths), bool))

    def look_up(table: sqlite3.Connection) -> None:
        for part in (range(first, min(first + AT_ONCE, len(paths))) for first in range(0, len(paths), AT_ONCE)):
            now = stamps[part.start : part.stop].tolist()
            file_of = {key: (row, *stamp) for key, row, stamp in zip(_keys(paths, part), part, now, strict=True)}
            marks = ",".join("?" * len(file_of))
            query = f"SELECT path, size, changed, digest, wrong IS NULL FROM files WHERE path IN ({marks})"
            for path, size, changed, digest, is_readable in table.execute(query, list(file_of)):
                row, *stamp = file_of[path]
                if stamp == [size, changed]:
                    found.digests[row], found.is_readable[row] = digest, is_readable

    _with_table(memory, look_up)
    return found


def _look_at(paths: Paths, rows: Sequence[int] | npt.NDArray[np.intp]) -> Stamps:
    parts = [rows[first : first + AT_ONCE] for first in range(0, len(rows), AT_ONCE)]
    return np.concatenate([np.empty((0, 2), np.int64), *in_threads(lambda part: _stamps(paths, part), parts, None)])


def _stamps(paths: Paths, rows: Sequence[int] | npt.NDArray[np.intp]) -> Stamps:
    found = np.full((len(rows), 2), -1, np.int64)
    archives: dict[str, Stamp] = {}
    for index, (row, key) in enumerate(zip(rows, _keys(paths, rows), strict=True)):
        with suppress(OSError, ValueError):
            if (match := ARCHIVE.search(paths.names[row])) is not None:
                archive = paths.names[row][: match.end()]
                if archive not in archives and (file := joined(paths.root, archive)).is_file():
                    archives[archive] = stamp_of(file)
                found[index] = archives[archive] if archive in archives else stamp_of(paths[row])
            elif b"://" in key:
                found[index] = stamp_of(paths[row])
            else:
                state = os.stat(key)  # noqa: PTH116  to make a Path of each takes longer than to look
                found[index] = state.st_size, state.st_mtime_ns
    return found


def _keys(paths: Paths, rows: Sequence[int] | npt.NDArray[np.intp]) -> list[bytes]:
    """Return the absolute path of each file; names need not be UTF-8."""
    root = os.fsencode(paths.root.resolve()) + b"/"
    names = (os.fsencode(paths.names[row]) for row in rows)
    return [name if name.startswith(b"/") or b"://" in name else root + name for name in names]


def _with_table(memory: Path | None, act: Callable[[sqlite3.Connection], object]) -> None:
    """Let `act` use the table of files in one transaction, if there is one that can be used; remove a damaged one."""
    if memory is None or isinstance(memory, RemotePath):
        return
    file = memory / FILE
    try:
        memory.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(file, timeout=PATIENCE)) as table, table:
            table.execute(_TABLE)
            act(table)
    except (sqlite3.OperationalError, OSError) as error:  # no room, no right to write, no locks
        log.debug("%s: %s", file, error)
    except sqlite3.DatabaseError as error:
        log.debug("%s: %s; it is made again", file, error)
        with suppress(OSError):
            file.unlink()
