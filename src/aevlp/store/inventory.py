"""The folder of all stores: listing them, finding damaged packs, removing stores and images.

It touches only stores (folders named by a key, with a manifest) and what belongs beside them: the memory of image files, and
the rest of a removal that was killed.
"""

import re
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
from rich.markup import escape
from rich.table import Table

from aevlp.core.errors import UserError
from aevlp.core.locks import claim_folder
from aevlp.core.progress import progress
from aevlp.core.threads import in_threads
from aevlp.data.fingerprint import Digests, different
from aevlp.data.known_files import FILE
from aevlp.store.embedding_store import FORMAT, read_manifest, read_uses, remove_leftovers, write_uses
from aevlp.store.packs import DrawIndex, Shape, damage_of, write_pack

DAY = 86400.0  # seconds
DAMAGED = "damaged manifest"
_KEY = re.compile(r"[0-9a-f]{24}")
_REMOVED = re.compile(r"\.[0-9a-f]{24}\.[0-9a-f]{32}\.removed")
_DRAW = re.compile(r"draw-(\d{3,})")


@dataclass(frozen=True)
class Stored:
    """A store on disk."""

    folder: Path
    model: str
    size: int
    """Bytes of all its files."""
    last_use: float
    """Seconds since the epoch."""
    shape: Shape = (0, 0)
    images: int = 0
    """Different images in any draw."""
    draws: str = ""
    """The number of draws that hold all images, and of those that hold some: `3`, or `3 + 1 in part`."""
    unusable: str | None = None
    """The reason why no run reads it; None if runs do."""

    def indexes(self) -> dict[int, DrawIndex]:
        """Return the index of each draw."""
        return indexes_of(self.folder, self.shape)


def stores(root: Path) -> list[Stored]:
    """Return the stores in `root`, the last used first; none if `root` does not exist."""
    try:
        folders = [path for path in root.iterdir() if _KEY.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"--store {root}: cannot be read ({error.strerror}); name the folder of the stores") from error
    found = []
    for folder in folders:
        with suppress(FileNotFoundError):  # not a store, or being removed
            found.append(_stored(folder))
    return sorted(found, key=lambda stored: (-stored.last_use, stored.folder.name))


def _stored(folder: Path) -> Stored:
    last_use = (folder / "manifest.json").stat().st_mtime
    size = _size(folder)
    try:
        manifest = read_manifest(folder)
        format = int(manifest.get("format", 1))
        model = str(dict(manifest.get("about", {})).get("model", ""))
        if format != FORMAT:
            return Stored(folder, model, size, last_use, unusable=f"{'older' if format < FORMAT else 'newer'} format")
        shape = int(manifest["views"]), int(manifest["dimension"])
        if min(shape) < 1:
            raise ValueError("a store has at least one number per image")
    except (ArithmeticError, LookupError, OSError, TypeError, ValueError):
        return Stored(folder, "", size, last_use, unusable=DAMAGED)
    counts = [different(digests)[0] for digests in map(_digests, indexes_of(folder, shape).values())]
    images = len(different(np.concatenate([np.empty(0, "S16"), *counts]))[0])
    whole = sum(len(digests) == images for digests in counts)
    part = len(counts) - whole
    return Stored(folder, model, size, last_use, shape, images, f"{whole}" + (f" + {part} in part" if part else ""))


def indexes_of(folder: Path, shape: Shape) -> dict[int, DrawIndex]:
    """Return the index of each draw in a store's folder."""
    names = {int(name[1]): path for path in sorted(folder.glob("draw-*")) if (name := _DRAW.fullmatch(path.name))}
    return {draw: DrawIndex(path, draw, shape) for draw, path in names.items()}


def _digests(index: DrawIndex) -> Digests:
    return np.concatenate([np.empty(0, "S16"), *(pack.digests for pack in index.packs)])


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; files that vanish meanwhile do not count."""
    size = 0
    for file in (path, *path.rglob("*")):
        with suppress(FileNotFoundError):
            size += file.lstat().st_size if not file.is_dir() else 0
    return size


def chosen(found: Sequence[Stored], keys: Sequence[str]) -> list[Stored]:
    """Return the stores with these keys, each of which may be shortened; all stores if there are no keys."""
    named = []
    for key in keys:
        fitting = [stored for stored in found if stored.folder.name.startswith(key.lower())]
        if len(fitting) != 1 or not key:
            known = ", ".join(stored.folder.name for stored in fitting or found) or "none"
            wrong = "no store has this key; there are" if not fitting else "several stores begin with it; give more of the key:"
            raise UserError(f"KEY {key}: {wrong} {known}")
        named += [stored for stored in fitting if stored not in named]
    return named if keys else list(found)


@dataclass(frozen=True)
class Verification:
    """The result of reading every pack of some stores."""

    stores: int
    packs: int
    damaged: list[tuple[Path, str]]
    """Files, and what is wrong with them."""
    unknown: list[tuple[Path, str]]
    """Folders of stores that cannot be read, and why."""


def verify(found: Sequence[Stored]) -> Verification:
    """Read every pack of these stores."""
    packs = [
        (path, draw, stored.shape)
        for stored in found
        if stored.unusable is None
        for draw, index in stored.indexes().items()
        for path in sorted([*(pack.path for pack in index.packs), *index.damaged])
    ]
    with progress("checking packs", len(packs)) as advance:
        damage = in_threads(lambda pack: damage_of(*pack), packs, None, lambda _: advance(1))
    unusable = [(stored.folder, stored.unusable) for stored in found if stored.unusable is not None]
    unknown = [(folder, why) for folder, why in unusable if why != DAMAGED]
    damaged = [(folder / "manifest.json", why) for folder, why in unusable if why == DAMAGED]
    damaged += [(path, wrong) for (path, _, _), wrong in zip(packs, damage, strict=True) if wrong is not None]
    return Verification(len(found) - len(unknown), len(packs), damaged, unknown)


def render(result: Verification) -> str:
    """Return the result as text."""
    lines = [f"{path}: {wrong}" for path, wrong in result.damaged]
    lines += [f"{folder}: {why}, not checked" for folder, why in result.unknown]
    if not result.damaged:
        lines.append(f"{counted(result.packs, 'pack')} of {counted(result.stores, 'store')}: all intact")
    return "\n".join(lines)


def prune(root: Path, found: Sequence[Stored], days: float | None, *, yes: bool) -> str:
    """Remove stores, or what no run has used for so many days, and leftovers; return a report. Without `yes`, only report.

    A store that is in use is kept, and so is one whose use cannot be determined.
    """
    lines, freed = [], 0
    for stored in found:
        line, size = _prune(stored, days, yes=yes)
        lines += line
        freed += size
    memory = [path for path in (root / FILE,) if days is not None and path.is_file() and _is_old(path.stat().st_mtime, days)]
    lists = sorted(root.glob("readable/*.json")) if days is not None else []  # of version 0.6.0 and older
    halves = [path for path in root.glob(".*.removed") if _REMOVED.fullmatch(path.name)]
    for paths, name in (
        (memory, "memory of image files"),
        (lists, "list of readable images"),
        (halves, "rest of a killed prune"),
    ):
        if paths:
            freed += sum(_size(path) for path in paths)
            lines.append(f"{'removed' if yes else 'to remove'}: {len(paths)} x {name}")
    if not yes:
        return "\n".join([*lines, f"{show_size(freed)} to free; add --yes to remove" if freed else "nothing to remove"])
    for path in [*memory, *lists, *halves]:
        _remove(path)
    for stored in stores(root):
        remove_leftovers(stored.folder)
    return "\n".join([*lines, f"{show_size(freed)} freed"])


def _prune(stored: Stored, days: float | None, *, yes: bool) -> tuple[list[str], int]:
    """Remove a store, or its images that no run has used for so many days; return a report and the bytes that this frees."""
    verb, about = "removed" if yes else "to remove", f"last used {show_time(stored.last_use)}"
    if days is None or _is_old(stored.last_use, days):
        if not (remove(stored) if yes else not in_use(stored)):
            return [f"in use, kept: {stored.folder} ({show_size(stored.size)}, {about})"], 0
        return [f"{verb}: {stored.folder} ({show_size(stored.size)}, {about})"], stored.size
    if stored.unusable is not None or not len(old := _unused_images(stored, days)):
        return [], 0
    claim = claim_folder(stored.folder)
    if claim is None:
        return [f"in use, kept: {stored.folder} ({len(old):,} unused images)"], 0
    try:
        freed = sum(_without(draw, index, old, yes=yes) for draw, index in stored.indexes().items())
        if yes:
            uses = read_uses(stored.folder)
            write_uses(stored.folder, uses[~np.isin(uses["digest"], old)])
    finally:
        claim.release()
    which = f"{len(old):,} of {stored.images:,} images, not used for {days:g} days"
    return [f"{verb}: {which}, of {stored.folder} ({show_size(freed)})"], freed


def _unused_images(stored: Stored, days: float) -> Digests:
    """Return the images that no run has used for so many days; of those without a record, the pack's time counts."""
    uses = read_uses(stored.folder)
    used = uses["digest"][uses["time"] > time.time() - days * DAY]
    old = [np.empty(0, "S16")]
    for index in stored.indexes().values():
        for pack in index.packs:
            is_old = ~np.isin(pack.digests, used)
            if not _is_old(pack.path.stat().st_mtime, days):
                is_old &= np.isin(pack.digests, uses["digest"])
            old.append(pack.digests[is_old])
    return different(np.concatenate(old))[0]


def _without(draw: int, index: DrawIndex, old: Digests, *, yes: bool) -> int:
    """Remove images from the packs of a draw; return the bytes that this frees. Without `yes`, only count."""
    freed = 0
    for pack in index.packs:
        stays = ~np.isin(pack.digests, old)
        if stays.all():
            continue
        freed += int(pack.path.stat().st_size * (1 - stays.mean()))
        if yes:
            if stays.any() and damage_of(pack.path, draw, index.shape) is None:  # a copy would give damage a valid checksum
                write_pack(index.folder, draw, pack.digests[stays], pack.map()[stays])
            _remove(pack.path)
    return freed


def in_use(stored: Stored) -> bool:
    """Return whether a process has the store open."""
    claim = claim_folder(stored.folder)
    if claim is not None:
        claim.release()
    return claim is None and stored.folder.is_dir()


def remove(stored: Stored) -> bool:
    """Remove a store, unless it is in use; return whether it was removed."""
    claim = claim_folder(stored.folder)
    if claim is None:
        return False
    # Renamed first, so that half a store never has a store's name; after a kill the next `prune` removes the rest.
    aside = stored.folder.with_name(f".{stored.folder.name}.{uuid4().hex}.removed")
    try:
        stored.folder.rename(aside)
    except OSError as error:
        raise _cannot_remove(stored.folder, error) from error
    finally:
        claim.release()
    _remove(aside)
    return True


def _remove(path: Path) -> None:
    """Remove a file or a folder."""
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        pass  # another process has removed it
    except OSError as error:
        raise _cannot_remove(path, error) from error


def _cannot_remove(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: cannot be removed ({error.strerror}); it must belong to you, on a disk that you may write to")


def _is_old(last_use: float, days: float) -> bool:
    return last_use <= time.time() - days * DAY


def table(root: Path, found: Sequence[Stored]) -> Table:
    """Return the stores as a table for people to read."""
    shown = Table(title=escape(str(root)), title_justify="left", caption_justify="left")
    shown.caption = f"{counted(len(found), 'store')}, {show_size(sum(stored.size for stored in found))}"
    for name in ("key", "model", "vectors", "images", "draws", "size", "last use"):
        shown.add_column(name, no_wrap=name in ("key", "size"), overflow="fold")
    for stored in found:
        vectors = "-" if stored.unusable else f"{stored.shape[0]} x {stored.shape[1]}"
        images, draws = ("-", stored.unusable) if stored.unusable else (f"{stored.images:,}", stored.draws)
        used = show_size(stored.size), show_time(stored.last_use)
        shown.add_row(stored.folder.name, escape(stored.model) or "-", vectors, images, draws, *used)
    return shown


def counted(number: int, noun: str) -> str:
    """Return `1 pack`, `2 packs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def show_size(size: float) -> str:
    """Return `812 B`, `3.4 MB`, `120.0 GB`."""
    units = ["TB", "GB", "MB", "kB", "B"]
    while size >= 999.95 and len(units) > 1:
        size /= 1000
        units.pop()
    return f"{size:.0f} B" if units[-1] == "B" else f"{size:.1f} {units[-1]}"


def show_time(seconds: float) -> str:
    """Return `2026-03-01 14:05`, in local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
