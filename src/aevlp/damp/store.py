"""The store of view embeddings: what the teacher saw, on disk, once for all runs.

    ROOT/KEY/manifest.json            what the key stands for
    ROOT/KEY/draw-000/00000.npy       float16 [images, V, K] of the first SHARD images in the first draw, memory-mapped

KEY is the hash of all that decides an embedding: the teacher's weights, the view settings and the image set. A shard appears
by rename when it is complete, so a killed run loses at most the shard in hand, and two writers of one shard write the same bytes.
"""

from __future__ import annotations

import io
import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from aevlp.damp.views import ViewSettings
from aevlp.errors import UserError
from aevlp.files import cannot_write, whole_file, write_json

SHARD = 256  # images
DEAD_AFTER = 3600.0  # seconds
Embeddings = npt.NDArray[np.float16]


def shards_of(count: int) -> list[range]:
    """The rows of each shard of `count` images."""
    return [range(first, min(first + SHARD, count)) for first in range(0, count, SHARD)]


@dataclass(frozen=True)
class StoreKey:
    """All that decides the embeddings of an image set."""

    teacher: str  # fingerprint of its weights
    mean: tuple[float, ...]
    std: tuple[float, ...]
    precision: str
    views: ViewSettings
    images: str  # fingerprint of the image set

    def digest(self) -> str:
        """A folder name."""
        return blake2b(json.dumps(asdict(self), sort_keys=True).encode(), digest_size=12).hexdigest()


class ViewStore:
    """Embeddings [count, V, K] of an image set, draw by draw."""

    def __init__(self, root: Path, key: StoreKey, *, count: int, dimension: int) -> None:
        self.folder = root / key.digest()
        self.count = count
        self.shape = (key.views.count, dimension)
        self._open: dict[tuple[int, int], Embeddings] = {}
        self._write_manifest({"key": asdict(key), "images": count, "dimension": dimension, "shard": SHARD})
        self._clear_parts()

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        path = self.folder / "manifest.json"
        if not path.is_file():
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(self.folder, error) from error
            write_json(path, manifest)
        elif json.loads(path.read_text()) != json.loads(json.dumps(manifest)):
            raise UserError(f"{path}: does not describe this image set and teacher; remove {self.folder} and score again")

    def _clear_parts(self) -> None:
        """Removes what killed processes left half-written; a shard is written within seconds, so an old part is a dead one."""
        for part in self.folder.glob("draw-*/.*.part"):
            with suppress(FileNotFoundError):
                if time.time() - part.stat().st_mtime > DEAD_AFTER:
                    part.unlink()

    def rows(self, shard: int) -> range:
        """The images of a shard."""
        return shards_of(self.count)[shard]

    def path(self, draw: int, shard: int) -> Path:
        """The file of a shard."""
        return self.folder / f"draw-{draw:03d}" / f"{shard:05d}.npy"

    def missing(self, draws: int) -> list[tuple[int, int]]:
        """(draw, shard) of all that the first `draws` draws still lack."""
        return [(d, s) for d in range(draws) for s in range(len(shards_of(self.count))) if not self.path(d, s).is_file()]

    def write(self, draw: int, shard: int, embeddings: Embeddings) -> None:
        """Completes a shard with float16 [images of the shard, V, K]."""
        expected = (len(self.rows(shard)), *self.shape)
        if embeddings.shape != expected or embeddings.dtype != np.float16:
            raise ValueError(f"a shard is float16 {expected}, not {embeddings.dtype} {embeddings.shape}")
        content = io.BytesIO()  # numpy writing to a file itself would not say that the disk is full
        np.save(content, embeddings)
        with whole_file(self.path(draw, shard)) as file:
            file.write(content.getbuffer())

    def read(self, draw: int, shard: int) -> Embeddings:
        """Float16 [images of the shard, V, K], memory-mapped."""
        if (draw, shard) not in self._open:
            path = self.path(draw, shard)
            advice = "remove it and start again, it will be scored anew"
            try:
                array = np.load(path, mmap_mode="r")
            except (OSError, ValueError, EOFError) as error:
                raise UserError(f"{path}: damaged shard ({error}); {advice}") from None
            if array.shape != (len(self.rows(shard)), *self.shape):
                raise UserError(f"{path}: damaged shard (shape {array.shape}); {advice}")
            self._open[draw, shard] = array
        return self._open[draw, shard]
