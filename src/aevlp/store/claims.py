"""Claims on images: no two processes compute the same embeddings, and a killed one claims nothing.

KEY/.ID.lock      locked as long as a process fills the store
KEY/.ID.claims    the draws and digests of the images that it computes now
KEY/.mutex.lock   locked while a process changes its claims
KEY/.written      the packs that these processes wrote, a line each: a process that claims images reads the new lines, so that it
                  need not list all packs for each of its own
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from aevlp.core.errors import UserError
from aevlp.core.files import whole_file
from aevlp.core.locks import claim_file
from aevlp.data.fingerprint import DIGEST, Digests
from aevlp.store.packs import DrawIndex, pack_name

_ENTRY = np.dtype([("draw", "<i4"), ("digest", f"S{DIGEST}")])
MUTEX, WRITTEN = ".mutex.lock", ".written"
_PAUSE = 0.02  # seconds between two attempts to lock


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep all other processes from changing a store's claims and last uses."""
    while (claim := claim_file(folder / MUTEX)) is None:
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        claim.release()


class Claims:
    """The images of a store that this process computes, until `close` or the process's end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / f".{uuid4().hex}.claims"
        self._lock = claim_file(self._file.with_suffix(".lock"))
        self._held = np.empty(0, _ENTRY)
        self._read: dict[int, int] = {}  # draw -> bytes of the list of written packs that its index has taken note of

    def take(self, index: DrawIndex, draw: int, digests: Digests) -> npt.NDArray[np.bool_]:
        """Claim those of the images that are neither stored nor claimed; return which they are, bool [N]."""
        with alone(self.folder):
            self._find_written(index, draw)
            free = (index.find(digests)[0] < 0) & ~np.isin(digests, self._taken(draw))
            if free.any():
                more = np.empty(int(free.sum()), _ENTRY)
                more["draw"], more["digest"] = draw, digests[free]
                self._hold(np.concatenate([self._held, more]))
        return free

    def give_back(self, draw: int, digests: Digests) -> None:
        """Give up the claims on images that are stored now, in one pack."""
        with alone(self.folder):
            with (self.folder / WRITTEN).open("a", encoding="ascii") as file:
                file.write(f"{draw} {pack_name(draw, digests)}\n")
            self._hold(self._held[~((self._held["draw"] == draw) & np.isin(self._held["digest"], digests))])

    def close(self) -> None:
        """Give up all claims. The last process removes the list of written packs."""
        with suppress(OSError):
            self._file.unlink()
        if self._lock is not None:
            self._lock.release()
        with suppress(OSError, UserError), alone(self.folder):
            if not any(path.name != MUTEX for path in self.folder.glob(".*.lock")):
                (self.folder / WRITTEN).unlink(missing_ok=True)

    def _hold(self, entries: npt.NDArray[np.void]) -> None:
        self._held = entries
        with whole_file(self._file, tidy=False) as file:
            file.write(entries.tobytes())

    def _find_written(self, index: DrawIndex, draw: int) -> None:
        """Let the index take note of the packs that have come since the last look; the first look lists them all.

        A line that is missing or damaged costs no more than images that are computed twice.
        """
        with (self.folder / WRITTEN).open("a+b") as file:
            end, read = file.seek(0, os.SEEK_END), self._read.get(draw)
            if read is None or read > end:  # somebody has removed it
                index.refresh()
            else:
                file.seek(read)
                entries = (line.partition(" ") for line in file.read().decode("ascii", "replace").splitlines())
                index.add(name for number, _, name in entries if number == str(draw))
            self._read[draw] = end

    def _taken(self, draw: int) -> Digests:
        """Return the images in a draw that any living process claims; remove the claims of dead ones."""
        found = [self._held]
        for file in self.folder.glob(".*.claims"):
            if file == self._file:
                continue
            if (lock := claim_file(file.with_suffix(".lock"))) is None:
                with suppress(FileNotFoundError):  # closed meanwhile
                    found.append(np.frombuffer(file.read_bytes(), _ENTRY))
            else:
                with suppress(OSError):
                    file.unlink()
                lock.release()
        entries = np.concatenate(found)
        taken: Digests = entries["digest"][entries["draw"] == draw]
        return taken
