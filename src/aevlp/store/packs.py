"""Packs: files that hold the embeddings of some images in one draw, and the index of all packs of a draw.

A pack is a plain array of numpy, float16 [images, V, K], followed by the digests of its images and a checksum of everything
before. It appears by rename when it is complete and never changes. The packs are their own index: a reader takes the digests at
their ends, so that there is no second file that could disagree with them.
"""

import io
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from aevlp.core.chunks import slices_of
from aevlp.core.files import open_regular, whole_file
from aevlp.core.remote import RemotePath, names_in
from aevlp.data.fingerprint import DIGEST, Digests

PACK = 256  # images, at most
HEADER = 128  # bytes that numpy writes before the array
CHECKSUM = 16  # bytes
OTHER_IMAGES = "holds other images than its name says"
Embeddings = npt.NDArray[np.float16]
Shape = tuple[int, int]  # V, K: of an image
Places = npt.NDArray[np.int64]


def chunks_of(count: int) -> list[range]:
    """Return the numbers below `count` in ranges of the size of a pack."""
    return [range(part.start, part.stop) for part in slices_of(count, PACK)]


class DamagedPack(Exception):
    """A file that is not a whole pack; the message says why."""


@dataclass(frozen=True, eq=False)
class Pack:
    """A pack on disk."""

    path: Path
    digests: Digests  # [images]
    shape: Shape

    def map(self) -> Embeddings:
        """Return float16 [images, V, K], memory-mapped while the result is in use; in memory from a remote address."""
        count = len(self.digests) * self.shape[0] * self.shape[1]
        if isinstance(self.path, RemotePath):
            content = bytearray(self.path.read_range(HEADER, 2 * count))
            return np.frombuffer(content, np.float16, count).reshape(-1, *self.shape)
        with self.path.open("rb") as file:
            # Writable, which torch wants, and never written back.
            mapped = mmap.mmap(file.fileno(), HEADER + 2 * count, access=mmap.ACCESS_COPY)
        return np.frombuffer(mapped, np.float16, count, HEADER).reshape(-1, *self.shape)


def pack_name(draw: int, digests: Digests) -> str:
    """Return the name of the pack of these images: two writers of the same images write the same file."""
    return f"{blake2b(f'{draw}:'.encode() + digests.tobytes(), digest_size=12).hexdigest()}.npy"


def write_pack(folder: Path, draw: int, digests: Digests, embeddings: Embeddings) -> None:
    """Write float16 [images, V, K] of the images with these digests."""
    content = io.BytesIO()  # written to a file by numpy, a full disk would go unnoticed
    np.save(content, embeddings)
    content.write(digests.tobytes())
    with whole_file(folder / pack_name(draw, digests), tidy=False) as file:  # `remove_leftovers` does
        file.write(content.getbuffer())
        file.write(_checksum(content.getbuffer()))


def open_pack(path: Path, draw: int, shape: Shape) -> Pack:
    """Return the pack in a file, of which only the end is read; one under another's name would hide that one's absence."""
    try:
        with open_regular(path) as file:
            count = _count(file.seek(0, os.SEEK_END), shape)
            file.seek(HEADER + 2 * count * shape[0] * shape[1])
            digests = np.frombuffer(file.read(count * DIGEST), f"S{DIGEST}")
    except (OSError, ValueError) as error:
        raise DamagedPack(f"cannot be read ({error})") from error
    if path.name != pack_name(draw, digests):
        raise DamagedPack(OTHER_IMAGES)
    return Pack(path, digests, shape)


def _count(size: int, shape: Shape) -> int:
    """Return the number of images in a pack of so many bytes."""
    count, rest = divmod(size - HEADER - CHECKSUM, 2 * shape[0] * shape[1] + DIGEST)
    if rest or count < 1:
        raise DamagedPack(f"{size} bytes are not a whole pack" if size else "empty")
    return count


def damage_of(path: Path, draw: int, shape: Shape) -> str | None:
    """Read all of a pack; return what is wrong with it, None if it is intact."""
    try:
        with open_regular(path) as file:
            content = file.read()
        count = _count(len(content), shape)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except DamagedPack as error:
        return str(error)
    if _checksum(memoryview(content)[:-CHECKSUM]) != content[-CHECKSUM:]:
        return "checksum differs"
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except ValueError as error:  # no array of numpy, or one of Python objects, which are never unpickled
        return f"not an array of numbers ({error})"
    if array.shape != (count, *shape) or array.dtype != np.float16:
        return f"{array.dtype} {array.shape} instead of float16 {(count, *shape)}"
    digests = np.frombuffer(content[-CHECKSUM - count * DIGEST : -CHECKSUM], f"S{DIGEST}")
    return None if path.name == pack_name(draw, digests) else OTHER_IMAGES


def _checksum(content: memoryview) -> bytes:
    return blake2b(content, digest_size=CHECKSUM).digest()


@dataclass(frozen=True, eq=False)
class _Run:
    """Sorted digests, with the number of the pack and the row in it of each."""

    digests: Digests
    packs: Places
    rows: Places

    @classmethod
    def of(cls, digests: Digests, packs: Places, rows: Places) -> "_Run":
        order = np.argsort(digests, kind="stable")
        return cls(digests[order], packs[order], rows[order])


class DrawIndex:
    """The packs in the folder of a draw, and the place of each image in them."""

    def __init__(self, folder: Path, draw: int, shape: Shape) -> None:
        self.folder, self.draw, self.shape = folder, draw, shape
        self.packs: list[Pack] = []
        self.damaged: dict[Path, str] = {}
        self._names: set[str] = set()
        self._runs: list[_Run] = []  # each more than twice as long as the next, so that new packs cost little
        self.refresh()

    def refresh(self) -> None:
        """Take note of packs that have come or gone."""
        try:
            names = {name for name in names_in(self.folder) if name.endswith(".npy") and not name.startswith(".")}
        except FileNotFoundError:
            names = set()
        if not self._names <= names:
            self.packs, self.damaged, self._names, self._runs = [], {}, set(), []
        self._names -= {path.name for path in self.damaged}  # a damaged one may have been written again
        self.damaged = {}
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        """Take note of packs by their file names; those that it knows, or that are not there, are passed over."""
        found = []
        for name in sorted(set(names) - self._names):
            try:
                found.append(open_pack(self.folder / name, self.draw, self.shape))
            except DamagedPack as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    continue
                self.damaged[self.folder / name] = str(error)
            self._names.add(name)
        if found:
            self._enter(found)

    def _enter(self, packs: list[Pack]) -> None:
        numbers = np.arange(len(self.packs), len(self.packs) + len(packs))
        sizes = [len(pack.digests) for pack in packs]
        self.packs += packs
        rows = np.concatenate([np.arange(size) for size in sizes])
        self._runs.append(_Run.of(np.concatenate([pack.digests for pack in packs]), np.repeat(numbers, sizes), rows))
        while len(self._runs) > 1 and len(self._runs[-2].digests) <= 2 * len(self._runs[-1].digests):
            last = self._runs.pop(), self._runs.pop()
            parts = ([getattr(run, name) for run in last] for name in ("digests", "packs", "rows"))
            self._runs.append(_Run.of(*map(np.concatenate, parts)))

    def find(self, digests: Digests) -> tuple[Places, Places]:
        """Return the number of the pack and the row in it of each image, int64 [N] each; -1 if it is not stored."""
        packs, rows = np.full((2, len(digests)), -1)
        order = np.argsort(digests, kind="stable")  # a sorted search is several times as fast, sorting included
        ordered = digests[order]
        for run in self._runs:
            at = np.searchsorted(run.digests, ordered).clip(max=len(run.digests) - 1)
            is_here = run.digests[at] == ordered
            at, here = at[is_here], order[is_here]
            packs[here], rows[here] = run.packs[at], run.rows[at]
        return packs, rows
