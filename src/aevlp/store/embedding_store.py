"""A store of embeddings: the outputs of a frozen model for the images of a set, on disk, for all runs.

It holds V embeddings per image: the teacher's, one for each view, or the backbone's features in linear mode.

    ROOT/KEY/manifest.json            what the key stands for; its time is that of the last use
    ROOT/KEY/draw-000/00000.npy       float16 [images, V, K] of the first SHARD images in the first draw, memory-mapped,
                                      followed by a checksum
    ROOT/KEY/draw-000/.00000.lock     while a process computes that shard

KEY is the hash of everything that an embedding depends on: the model's weights, the view settings and the image set. A shard
appears by rename when it is complete, so a killed run loses at most its current shard, and two writers of one shard write the
same bytes.
"""

import io
import json
import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
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
LEFTOVER_AFTER = 3600.0  # seconds
Embeddings = npt.NDArray[np.float16]


def shards_of(count: int) -> list[range]:
    """Return the rows of each shard of `count` images."""
    return [range(first, min(first + SHARD, count)) for first in range(0, count, SHARD)]


@dataclass(frozen=True)
class Key(ABC):
    """Everything that the stored embeddings of an image set depend on."""

    @property
    @abstractmethod
    def vectors(self) -> int:
        """V, the number of embeddings per image."""

    def digest(self) -> str:
        """Return the name of the store's folder."""
        return blake2b(json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode(), digest_size=12).hexdigest()


class EmbeddingStore:
    """Embeddings [count, V, K] of an image set, draw by draw. No other process removes the store while this object lives."""

    def __init__(self, root: Path, key: Key, *, count: int, dimension: int, about: Mapping[str, str] | None = None) -> None:
        self.folder = root / key.digest()
        self.count = count
        self.shape = (key.vectors, dimension)
        self._shards = shards_of(count)
        self._hold = self._held_folder()
        self._write_manifest(
            {"key": asdict(key), "images": count, "dimension": dimension, "shard": SHARD},
            {"format": FORMAT, "views": key.vectors, "about": dict(about or {})},
        )
        with suppress(OSError):  # a complete store may be read-only
            os.utime(self.folder / "manifest.json")
        remove_leftovers(self.folder)

    def _held_folder(self) -> FolderLock:
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(self.folder, error) from error
            if (hold := hold_folder(self.folder)) is not None:  # else another process has just removed it
                return hold

    def _write_manifest(self, identity: dict[str, Any], other: dict[str, Any]) -> None:
        """Write the manifest, or check that the one that is there has this identity."""
        path = self.folder / "manifest.json"
        if not path.is_file():
            write_json(path, {**other, **identity})
            return
        try:
            found = read_manifest(self.folder)
            same = {name: found[name] for name in identity} == json.loads(json.dumps(identity))
        except (OSError, ValueError, LookupError):
            same = False
        if not same:
            raise UserError(f"{path}: does not describe this image set and model; remove {self.folder} and start again")

    def rows(self, shard: int) -> range:
        """Return the rows of a shard's images."""
        return self._shards[shard]

    def path(self, draw: int, shard: int) -> Path:
        """Return the file of a shard."""
        return self.folder / f"draw-{draw:03d}" / f"{shard:05d}.npy"

    def has(self, draw: int, shard: int) -> bool:
        """Return whether the shard is stored."""
        return self.path(draw, shard).is_file()

    def missing(self, draws: int) -> list[tuple[int, int]]:
        """Return (draw, shard) of all shards that the first `draws` draws still lack."""
        return [at for at in self._shards_in(draws) if not self.has(*at)]

    def damage(self, draw: int, shard: int) -> str | None:
        """Return what is wrong with a shard's file; None if it is intact."""
        return damage_of(self.path(draw, shard), self._shape(shard))

    def damaged(self, draws: int) -> list[tuple[int, int, str]]:
        """Read all stored shards of the first `draws` draws; return (draw, shard, what is wrong) of the damaged ones."""
        present = [at for at in self._shards_in(draws) if self.has(*at)]
        found = in_threads(lambda at: self.damage(*at), present, None)
        return [(draw, shard, what) for (draw, shard), what in zip(present, found, strict=True) if what is not None]

    def _shards_in(self, draws: int) -> list[tuple[int, int]]:
        return [(draw, shard) for draw in range(draws) for shard in range(len(self._shards))]

    def _shape(self, shard: int) -> tuple[int, ...]:
        return (len(self.rows(shard)), *self.shape)

    def claim(self, draw: int, shard: int) -> Claim | None:
        """Return the right to compute a shard, held until release or the process's end; None while another holds it."""
        return claim_file(self.path(draw, shard).with_name(f".{shard:05d}.lock"))

    def write(self, draw: int, shard: int, embeddings: Embeddings) -> None:
        """Write a shard, float16 [images of the shard, V, K]."""
        expected = self._shape(shard)
        if embeddings.shape != expected or embeddings.dtype != np.float16:
            raise ValueError(f"a shard is float16 {expected}, not {embeddings.dtype} {embeddings.shape}")
        content = io.BytesIO()  # written to a file by numpy, a full disk would go unnoticed
        np.save(content, embeddings)
        with whole_file(self.path(draw, shard)) as file:
            file.write(content.getbuffer())
            file.write(checksum(content.getbuffer()))

    def remove(self, draw: int, shard: int) -> None:
        """Remove a shard, if it is stored."""
        path = self.path(draw, shard)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{path}: cannot be removed ({error.strerror}); remove it, and it will be computed again") from error

    def read(self, draw: int, shard: int) -> Embeddings:
        """Return float16 [images of the shard, V, K], memory-mapped while the result is in use."""
        path = self.path(draw, shard)
        try:
            array: Embeddings = np.load(path, mmap_mode="c")  # writable, which torch wants, and never written back
        except Exception as error:  # numpy raises nearly anything for a damaged header
            wrong = str(error)
        else:
            if array.shape == self._shape(shard) and array.dtype == np.float16:
                return array
            wrong = f"{array.dtype} {array.shape}"
        raise UserError(f"{path}: damaged shard ({wrong}); start again, and it will be computed again")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest in a store's folder; OSError or ValueError if there is none."""
    found = json.loads((folder / "manifest.json").read_bytes().decode(errors="replace"))  # paths need not be UTF-8
    if not isinstance(found, dict):
        raise ValueError("not a mapping")
    return found


def checksum(content: memoryview) -> bytes:
    """Return the bytes that follow the array in a shard's file; readers of plain arrays ignore them."""
    return blake2b(content, digest_size=CHECKSUM).digest()


def damage_of(path: Path, shape: tuple[int, ...]) -> str | None:
    """Return what is wrong with the file of a shard of that shape; None if it is intact."""
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


def remove_leftovers(folder: Path) -> None:
    """Remove the files that killed processes left in a store's folder: parts of files, and locks that nobody holds."""
    for path in folder.rglob(".*"):
        with suppress(OSError, UserError):  # a store may be read-only, and other processes clear it too
            if time.time() - path.stat().st_mtime < LEFTOVER_AFTER:
                continue
            if path.suffix == ".part":  # a file is written within seconds, so an old part belongs to no living process
                path.unlink()
            elif path.suffix == ".lock" and (claim := claim_file(path)) is not None:
                claim.release()  # removes it
