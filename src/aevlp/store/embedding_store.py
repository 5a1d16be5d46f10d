"""A store of embeddings: the outputs of a frozen model for images, on disk, for all runs.

It holds V embeddings per image and draw: the teacher's, one for each view, or the backbone's features in linear mode.

    ROOT/files.sqlite               the digests of known image files (`aevlp.data.known_files`)
    ROOT/KEY/manifest.json          what the key stands for; its time is that of the last use
    ROOT/KEY/last_use.bin           the time of each image's last use
    ROOT/KEY/draw-000/NAME.npy      a pack: some images in the first draw (`aevlp.store.packs`)

KEY is the hash of everything that an embedding depends on except the image and the draw: the model's weights and the view
settings. An image is known by the digest of its file's content. Its name, folder, set and split do not matter.
"""

import json
import logging
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
from aevlp.core.files import cannot_write, remove_abandoned, whole_file, write_json
from aevlp.core.locks import FolderLock, claim_file, hold_folder
from aevlp.core.remote import READ_ONLY, RemotePath
from aevlp.core.threads import in_threads
from aevlp.data.fingerprint import DIGEST, Digests
from aevlp.store.claims import Claims, alone
from aevlp.store.packs import DrawIndex, Embeddings, damage_of, write_pack

log = logging.getLogger("aevlp")

FORMAT = 3  # 1 had no checksums; until 2 a store belonged to an image set
LEFTOVER_AFTER = 3600.0  # seconds
_USE = np.dtype([("digest", f"S{DIGEST}"), ("time", "<u4")])  # sorted by digest; seconds since the epoch


@dataclass(frozen=True)
class Key(ABC):
    """Everything that stored embeddings depend on, except the image and the draw."""

    @property
    @abstractmethod
    def vectors(self) -> int:
        """V, the number of embeddings per image and draw."""

    def digest(self) -> str:
        """Return the name of the store's folder."""
        return blake2b(json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode(), digest_size=12).hexdigest()


class EmbeddingStore:
    """Embeddings [V, K] of images, draw by draw. No other process removes the store while this object lives."""

    def __init__(self, root: Path, key: Key, *, dimension: int, about: Mapping[str, str] | None = None) -> None:
        self.folder = root / key.digest()
        self.shape = (key.vectors, dimension)
        self._hold = None if self.is_remote else self._held_folder()
        self._write_manifest({"key": asdict(key), "dimension": dimension}, {"format": FORMAT, "about": dict(about or {})})
        with suppress(OSError):  # a complete store may be read-only
            os.utime(self.folder / "manifest.json")
        if not self.is_remote:
            remove_leftovers(self.folder)
        self._indexes: dict[int, DrawIndex] = {}

    @property
    def is_remote(self) -> bool:
        """True for a store at a remote address, which is only read."""
        return isinstance(self.folder, RemotePath)

    def _held_folder(self) -> FolderLock:
        while True:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(self.folder, error) from error
            if (hold := hold_folder(self.folder)) is not None:  # else another process has just removed it
                return hold

    def _write_manifest(self, identity: dict[str, Any], other: dict[str, Any]) -> None:
        """Write the manifest, or check that the one that is there has this identity; write a damaged one again.

        The folder's name is a hash of the identity, and packs have checksums of their own: nothing else is lost with it.
        """
        path = self.folder / "manifest.json"
        expected = {**other, "views": self.shape[0], **json.loads(json.dumps(identity))}
        if path.is_file():
            try:
                found = read_manifest(self.folder)
            except OSError as error:
                raise UserError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
            except ValueError:
                found = {}
            if any(name in found and found[name] != expected[name] for name in identity):
                raise UserError(f"{path}: does not describe this model and its views; remove {self.folder} and start again")
            if all(found.get(name) == expected[name] for name in expected.keys() - {"about"}):
                return
            log.warning("%s: damaged; it is written again", path)
        if self.is_remote:
            raise self.incomplete("has no embeddings of this model and these views")
        write_json(path, expected)

    def index(self, draw: int) -> DrawIndex:
        """Return the index of a draw, as it was when this object first looked or last refreshed it."""
        if draw not in self._indexes:
            self._indexes[draw] = DrawIndex(draw_folder(self.folder, draw), draw, self.shape)
        return self._indexes[draw]

    def missing(self, draw: int, digests: Digests) -> npt.NDArray[np.bool_]:
        """Return which of these images are not stored in a draw, bool [N]."""
        is_missing: npt.NDArray[np.bool_] = self.index(draw).find(digests)[0] < 0
        return is_missing

    def incomplete(self, wrong: str) -> UserError:
        """Return the error to raise when a store that is only read cannot give what is needed."""
        return UserError(
            f"{self.folder.parent}: {wrong}, and {READ_ONLY}; fill a store on this machine (--store DIR), and copy it there"
        )

    def claims(self) -> Claims:
        """Return the right to claim images, to be closed."""
        return Claims(self.folder)

    def write(self, draw: int, digests: Digests, embeddings: Embeddings) -> None:
        """Write a pack, float16 [N, V, K]."""
        expected = (len(digests), *self.shape)
        if embeddings.shape != expected or embeddings.dtype != np.float16:
            raise ValueError(f"a pack is float16 {expected}, not {embeddings.dtype} {embeddings.shape}")
        write_pack(draw_folder(self.folder, draw), draw, digests, embeddings)

    def read(self, draw: int, digests: Digests) -> Embeddings:
        """Return the embeddings of stored images, float16 [N, V, K]; memory-mapped if they lie side by side in one pack."""
        index = self.index(draw)
        packs, rows = index.find(digests)
        if (packs < 0).any():
            raise UserError(
                f"{index.folder}: {int((packs < 0).sum())} images are gone; start again, and they will be computed again"
            )
        if len(rows) and (packs == packs[0]).all() and (np.diff(rows) == 1).all():
            return self._mapped(index, packs[0])[rows[0] : rows[-1] + 1]
        found: Embeddings = np.empty((len(digests), *self.shape), np.float16)
        by_pack = np.argsort(packs, kind="stable")
        for here in np.split(by_pack, np.flatnonzero(np.diff(packs[by_pack])) + 1) if len(packs) else ():
            found[here] = self._mapped(index, packs[here[0]])[rows[here]]
        return found

    def _mapped(self, index: DrawIndex, number: int) -> Embeddings:
        pack = index.packs[number]
        try:
            return pack.map()
        except (OSError, ValueError) as error:
            raise UserError(f"{pack.path}: damaged ({error}); start again, and it will be computed again") from error

    def damaged(self, draw: int, digests: Digests) -> dict[Path, str]:
        """Read all packs of a draw that hold some of these images; return those that are damaged, with the reason."""
        index = self.index(draw)
        numbers = np.unique(index.find(digests)[0])
        paths = [index.packs[number].path for number in numbers if number >= 0]
        found = in_threads(lambda path: damage_of(path, draw, self.shape), paths, None)
        return index.damaged | {path: wrong for path, wrong in zip(paths, found, strict=True) if wrong is not None}

    def remove_damaged(self, draw: int, path: Path) -> str | None:
        """Remove a pack if it is still damaged; return what is wrong with it."""
        with alone(self.folder):  # another run may have removed it and written it anew
            wrong = damage_of(path, draw, self.shape) if os.path.lexists(path) else None  # it may be a link to nothing
            if wrong is not None:
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise UserError(
                        f"{path}: damaged, and cannot be removed ({error.strerror}); remove it, and it will be computed again"
                    ) from error
            self.index(draw).refresh()
        return wrong

    def note_use(self, digests: Digests) -> None:
        """Note that these images, sorted and without duplicates, are used now."""
        with suppress(OSError, UserError), alone(self.folder):  # a store may be read-only
            uses = read_uses(self.folder)
            at = np.searchsorted(uses["digest"], digests)
            is_known = at < len(uses)
            is_known[is_known] = uses["digest"][at[is_known]] == digests[is_known]
            new = np.empty(int((~is_known).sum()), _USE)
            new["digest"] = digests[~is_known]
            uses = np.concatenate([uses, new])
            uses["time"][at[is_known]] = uses["time"][len(uses) - len(new) :] = int(time.time())
            write_uses(self.folder, uses[np.argsort(uses["digest"])] if len(new) else uses)


def draw_folder(folder: Path, draw: int) -> Path:
    """Return the folder of a draw's packs."""
    return folder / f"draw-{draw:03d}"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest in a store's folder; OSError or ValueError if there is none."""
    try:
        found = json.loads((folder / "manifest.json").read_bytes().decode(errors="replace"))  # paths need not be UTF-8
    except RecursionError as error:
        raise ValueError("brackets within each other, too many") from error
    if not isinstance(found, dict):
        raise ValueError("not a mapping")
    return found


def read_uses(folder: Path) -> npt.NDArray[np.void]:
    """Return the last use of each image that was used, sorted by digest; empty if there is no record or a damaged one."""
    try:
        content = (folder / "last_use.bin").read_bytes()
        return np.frombuffer(content, _USE).copy()
    except (OSError, ValueError):
        return np.empty(0, _USE)


def write_uses(folder: Path, uses: npt.NDArray[np.void]) -> None:
    """Write the last use of each image."""
    with whole_file(folder / "last_use.bin") as file:
        file.write(uses.tobytes())


def remove_leftovers(folder: Path) -> None:
    """Remove the files that killed processes left in a store's folder: parts of files, and locks that nobody holds."""
    for place in (folder, *folder.glob("draw-*")):
        with suppress(OSError), os.scandir(place) as entries:
            for entry in [entry for entry in entries if entry.name.startswith(".")]:
                with suppress(OSError, UserError):  # a store may be read-only, and other processes clear it too
                    path, age = Path(entry.path), time.time() - entry.stat().st_mtime
                    if path.suffix == ".part":
                        remove_abandoned(path)
                    if age < LEFTOVER_AFTER or not path.exists():
                        continue
                    if path.suffix == ".part":  # a file is written within seconds, so an old part belongs to no living process
                        path.unlink()
                    elif path.suffix == ".lock" and (claim := claim_file(path)) is not None:
                        claim.release()  # removes it


def older_stores(root: Path) -> list[Path]:
    """Return the folders of stores in an older format."""
    found = []
    for folder in sorted(root.iterdir()):
        with suppress(OSError, ValueError, TypeError):
            if int(read_manifest(folder).get("format", 1)) < FORMAT:
                found.append(folder)
    return found
