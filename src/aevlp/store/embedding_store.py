"""The store of embeddings: what a frozen model saw of images, on disk, once for all runs.

It holds the teacher's embeddings of views, and in linear mode the backbone's features, V of them per image.

    ROOT/KEY/manifest.json            what the key stands for; its time is that of the last use
    ROOT/KEY/draw-000/00000.npy       float16 [images, V, K] of the first SHARD images in the first draw, memory-mapped,
                                      and a checksum behind it
    ROOT/KEY/draw-000/.00000.lock     while a process works on that shard

KEY is the hash of all that decides an embedding: the model's weights, the view settings and the image set. A shard appears
by rename when it is complete, so a killed run loses at most the shard in hand, and two writers of one shard write the same bytes.
"""

from __future__ import annotations

import io
import json
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aevlp.core.errors import UserError
from aevlp.core.files import cannot_write, whole_file, write_json
from aevlp.core.locks import Claim, FolderLock, claim_file, hold_folder
from aevlp.core.threads import in_threads

FORMAT = 2  # 1 had no checksums
SHARD = 256  # images
CHECKSUM = 16  # bytes
DEAD_AFTER = 3600.0  # seconds
Embeddings = npt.NDArray[np.float16]


def shards_of(count: int) -> list[range]:
    """The rows of each shard of `count` images."""
    return [range(first, min(first + SHARD, count)) for first in range(0, count, SHARD)]


@dataclass(frozen=True)
class Key(ABC):
    """All that decides what is stored of an image set."""

    @property
    @abstractmethod
    def vectors(self) -> int:
        """V: embeddings of one image."""

    def digest(self) -> str:
        """A folder name."""
        return blake2b(json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode(), digest_size=12).hexdigest()


class EmbeddingStore:
    """Embeddings [count, V, K] of an image set, draw by draw. While it is referred to, no other process removes it."""

    def __init__(self, root: Path, key: Key, *, count: int, dimension: int, about: Mapping[str, str] | None = None) -> None:
        self.folder = root / key.digest()
        self.count = count
        self.shape = (key.vectors, dimension)
        self._shards = shards_of(count)
        self._hold = self._held()
        self._write_manifest(
            {"key": asdict(key), "images": count, "dimension": dimension, "shard": SHARD},
            {"format": FORMAT, "views": key.vectors, "about": dict(about or {})},
        )
        with suppress(OSError):  # a complete store may be read-only
            os.utime(self.folder / "manifest.json")
        clear_dead(self.folder)

    def _held(self) -> FolderLock:
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(self.folder, error) from error
            if (hold := hold_folder(self.folder)) is not None:  # else it was removed between the two lines
                return hold

    def _write_manifest(self, decisive: dict[str, Any], other: dict[str, Any]) -> None:
        """Writes what the store is, or makes sure that it is this one; `other` is not compared."""
        path = self.folder / "manifest.json"
        if not path.is_file():
            write_json(path, {**other, **decisive})
            return
        try:
            found = read_manifest(self.folder)
            same = {name: found[name] for name in decisive} == json.loads(json.dumps(decisive))
        except (OSError, ValueError, LookupError):
            same = False
        if not same:
            raise UserError(f"{path}: does not describe this image set and model; remove {self.folder} and score again")

    def rows(self, shard: int) -> range:
        """The images of a shard."""
        return self._shards[shard]

    def path(self, draw: int, shard: int) -> Path:
        """The file of a shard."""
        return shard_path(self.folder, draw, shard)

    def has(self, draw: int, shard: int) -> bool:
        """Whether the shard is there."""
        return self.path(draw, shard).is_file()

    def missing(self, draws: int) -> list[tuple[int, int]]:
        """(draw, shard) of all that the first `draws` draws still lack."""
        return [at for at in self._places(draws) if not self.has(*at)]

    def damage(self, draw: int, shard: int) -> str | None:
        """What is wrong with a shard's file; None if it is whole."""
        return damage_of(self.path(draw, shard), self._shape(shard))

    def damaged(self, draws: int, progress: Callable[[int], None] | None = None) -> list[tuple[int, int, str]]:
        """(draw, shard, what is wrong with it) of the damaged shards in the first `draws` draws; reads all that are there.

        `progress` is called with the number of shards looked at so far.
        """
        present = [at for at in self._places(draws) if self.has(*at)]
        found = in_threads(lambda at: self.damage(*at), present, None, progress)
        return [(draw, shard, what) for (draw, shard), what in zip(present, found, strict=True) if what is not None]

    def _places(self, draws: int) -> list[tuple[int, int]]:
        return [(draw, shard) for draw in range(draws) for shard in range(len(self._shards))]

    def _shape(self, shard: int) -> tuple[int, ...]:
        return (len(self.rows(shard)), *self.shape)

    def claim(self, draw: int, shard: int) -> Claim | None:
        """The right to work on a shard until it is released or the process dies; None while another has it."""
        return claim_file(self.path(draw, shard).with_name(f".{shard:05d}.lock"))

    def write(self, draw: int, shard: int, embeddings: Embeddings) -> None:
        """Completes a shard with float16 [images of the shard, V, K]."""
        expected = self._shape(shard)
        if embeddings.shape != expected or embeddings.dtype != np.float16:
            raise ValueError(f"a shard is float16 {expected}, not {embeddings.dtype} {embeddings.shape}")
        content = io.BytesIO()  # numpy writing to a file itself would not say that the disk is full
        np.save(content, embeddings)
        with whole_file(self.path(draw, shard)) as file:
            file.write(content.getbuffer())
            file.write(checksum(content.getbuffer()))

    def remove(self, draw: int, shard: int) -> None:
        """Removes a shard, if it is there."""
        path = self.path(draw, shard)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{path}: cannot be removed ({error.strerror}); remove it, it will be scored anew") from error

    def read(self, draw: int, shard: int) -> Embeddings:
        """Float16 [images of the shard, V, K], memory-mapped for as long as the result is kept."""
        path = self.path(draw, shard)
        try:
            array: Embeddings = np.load(path, mmap_mode="c")  # writable, which torch wants, and never written back
        except Exception as error:  # what numpy raises for a damaged header is not a closed list
            wrong = str(error)
        else:
            if array.shape == self._shape(shard) and array.dtype == np.float16:
                return array
            wrong = f"{array.dtype} {array.shape}"
        raise UserError(f"{path}: damaged shard ({wrong}); start again, it will be scored anew")


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a store's folder says of itself; OSError or ValueError if it says nothing."""
    found = json.loads((folder / "manifest.json").read_bytes().decode(errors="replace"))  # paths need not be UTF-8
    if not isinstance(found, dict):
        raise ValueError("not a mapping")
    return found


def shard_path(folder: Path, draw: int, shard: int) -> Path:
    """The file of a shard in a store's folder."""
    return folder / f"draw-{draw:03d}" / f"{shard:05d}.npy"


def checksum(content: memoryview) -> bytes:
    """The bytes that follow a shard's array in its file; readers of plain arrays do not look at them."""
    return blake2b(content, digest_size=CHECKSUM).digest()


def damage_of(path: Path, shape: tuple[int, ...]) -> str | None:
    """What is wrong with the file of a shard of that shape; None if it is whole."""
    try:
        content = path.read_bytes()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if len(content) < 10 or not content.startswith(b"\x93NUMPY"):
        return "not a shard" if content else "empty"
    if checksum(memoryview(content)[:-CHECKSUM]) != content[-CHECKSUM:]:
        # The header's length is in its bytes 8 and 9.
        expected = 10 + int.from_bytes(content[8:10], "little") + 2 * math.prod(shape) + CHECKSUM
        return "checksum differs" if len(content) == expected else f"{len(content)} bytes instead of {expected}"
    array = np.load(io.BytesIO(content))
    return None if array.shape == shape and array.dtype == np.float16 else f"{array.dtype} {array.shape} instead of {shape}"


def clear_dead(folder: Path) -> None:
    """Removes what killed processes left in a store's folder: parts of files, and locks that nobody holds."""
    for path in folder.rglob(".*"):
        with suppress(OSError, UserError):  # a store may be read-only, and others clear it too
            if time.time() - path.stat().st_mtime < DEAD_AFTER:
                continue
            if path.suffix == ".part":  # a file is written within seconds, so an old part is a dead one
                path.unlink()
            elif path.suffix == ".lock" and (claim := claim_file(path)) is not None:
                claim.release()  # removes it
