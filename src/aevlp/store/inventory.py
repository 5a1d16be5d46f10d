"""The folder of all stores: listing them, finding damaged shards, removing stores.

It touches only stores (folders named by a key, with a manifest) and what belongs beside them: the lists of readable images, and
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

from rich.markup import escape
from rich.table import Table

from aevlp.core.errors import UserError
from aevlp.core.locks import claim_folder
from aevlp.core.progress import progress
from aevlp.core.threads import in_threads
from aevlp.store.embedding_store import FORMAT, damage_of, read_manifest, remove_leftovers, shards_of

DAY = 86400.0  # seconds
DAMAGED = "damaged manifest"
_KEY = re.compile(r"[0-9a-f]{24}")
_REMOVED = re.compile(r"\.[0-9a-f]{24}\.[0-9a-f]{32}\.removed")
_SHARD = re.compile(r"draw-(\d{3,})/(\d{5,})\.npy")


@dataclass(frozen=True)
class Shard:
    """The file of a shard, and the shape that it should have."""

    path: Path
    draw: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Stored:
    """A store on disk."""

    folder: Path
    data: str
    model: str
    images: int
    size: int
    """Bytes of all its files."""
    last_use: float
    """Seconds since the epoch."""
    shards: tuple[Shard, ...] = ()
    unusable: str | None = None
    """The reason why no run reads it; None if runs do."""

    @property
    def draws(self) -> str:
        """The number of complete draws, and the shards of incomplete ones: `3`, or `3 + 2 of 7 shards`."""
        if self.unusable is not None:
            return self.unusable
        each = len(shards_of(self.images))
        present = [shard.draw for shard in self.shards]
        counts = [present.count(draw) for draw in sorted(set(present))]
        begun = [count for count in counts if count < each]
        return f"{len(counts) - len(begun)}" + (f" + {sum(begun)} of {each * len(begun)} shards" if begun else "")


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
        images = int(manifest["images"])
        if (format := manifest.get("format", 1)) != FORMAT:
            return Stored(folder, "", "", images, size, last_use, unusable=f"{'older' if format < FORMAT else 'newer'} format")
        about = dict(manifest["about"])
        made_by = about.get("model", about.get("teacher", ""))  # as stores of 0.4.0 call it
        rows, shape, shards = shards_of(images), (int(manifest["views"]), int(manifest["dimension"])), []
        for path in sorted(folder.glob("draw-*/*.npy")):
            name = _SHARD.fullmatch(path.relative_to(folder).as_posix())
            if name and int(name[2]) < len(rows):
                shards.append(Shard(path, int(name[1]), (len(rows[int(name[2])]), *shape)))
        return Stored(folder, str(about.get("data", "")), str(made_by), images, size, last_use, tuple(shards))
    except (OSError, ValueError, TypeError, LookupError):
        return Stored(folder, "", "", 0, size, last_use, unusable=DAMAGED)


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
    """The result of reading every shard of some stores."""

    stores: int
    shards: int
    damaged: list[tuple[Path, str]]
    """Files, and what is wrong with them."""
    unknown: list[tuple[Path, str]]
    """Folders of stores that cannot be read, and why."""


def verify(found: Sequence[Stored]) -> Verification:
    """Read every shard of these stores."""
    shards = [shard for stored in found for shard in stored.shards]
    with progress("checking", sum(shard.shape[0] for shard in shards)) as advance:
        damage = in_threads(
            lambda shard: damage_of(shard.path, shard.shape), shards, None, lambda done: advance(shards[done - 1].shape[0])
        )
    unusable = [(stored.folder, stored.unusable) for stored in found if stored.unusable is not None]
    unknown = [(folder, why) for folder, why in unusable if why != DAMAGED]
    damaged = [(folder / "manifest.json", why) for folder, why in unusable if why == DAMAGED]
    damaged += [(shard.path, wrong) for shard, wrong in zip(shards, damage, strict=True) if wrong is not None]
    return Verification(len(found) - len(unknown), len(shards), damaged, unknown)


def render(result: Verification) -> str:
    """Return the result as text."""
    lines = [f"{path}: {wrong}" for path, wrong in result.damaged]
    lines += [f"{folder}: {why}, not checked" for folder, why in result.unknown]
    if not result.damaged:
        lines.append(f"{counted(result.shards, 'shard')} of {counted(result.stores, 'store')}: all intact")
    return "\n".join(lines)


def unused(found: Sequence[Stored], days: float) -> list[Stored]:
    """Return the stores that no run has opened for so many days."""
    return [stored for stored in found if _is_old(stored.last_use, days)]


def prune(root: Path, found: Sequence[Stored], days: float | None, *, yes: bool) -> str:
    """Remove stores, old lists of readable images and leftovers; return a report. Without `yes`, only report.

    A store that is in use is kept, and so is one whose use cannot be determined.
    """
    verb, lines, freed = "removed" if yes else "to remove", [], 0
    for stored in found:
        free = remove(stored) if yes else not in_use(stored)
        freed += stored.size if free else 0
        what = verb if free else "in use, kept"
        lines.append(f"{what}: {stored.folder} ({show_size(stored.size)}, last used {show_time(stored.last_use)})")
    lists = sorted((root / "readable").glob("*.json")) if days is not None else []
    lists = [path for path in lists if _is_old(path.stat().st_mtime, days or 0)]
    halves = [path for path in root.glob(".*.removed") if _REMOVED.fullmatch(path.name)]
    for paths, name in ((lists, "list of readable images"), (halves, "rest of a killed prune")):
        if paths:
            freed += sum(_size(path) for path in paths)
            lines.append(f"{verb}: {len(paths)} x {name}")
    if not yes:
        return "\n".join([*lines, f"{show_size(freed)} to free; add --yes to remove" if freed else "nothing to remove"])
    for path in [*lists, *halves]:
        _remove(path)
    for folder in [root / "readable", *(stored.folder for stored in stores(root))]:
        remove_leftovers(folder)
    return "\n".join([*lines, f"{show_size(freed)} freed"])


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
    for name in ("key", "data", "model", "images", "draws", "size", "last use"):
        shown.add_column(name, no_wrap=name in ("key", "size"), overflow="fold")
    for stored in found:
        about = (escape(text) or "-" for text in (stored.data, stored.model))
        numbers = (f"{stored.images:,}", stored.draws, show_size(stored.size), show_time(stored.last_use))
        shown.add_row(stored.folder.name, *about, *numbers)
    return shown


def counted(number: int, noun: str) -> str:
    """Return `1 shard`, `2 shards`."""
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
