"""The registry of label formats, and the file that a format writes. A format's file registers itself with one line."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from aevlp.core.errors import UserError
from aevlp.core.files import whole_file, whole_folder
from aevlp.core.registry import Registry, summary_of
from aevlp.core.remote import RemotePath, joined
from aevlp.data.records import LabelRecord


@dataclass(frozen=True)
class LabelFile:
    """A file of completed labels to write, and the image set that it describes."""

    out: Path
    root: Path
    """Folder that the images' names are relative to."""
    classes: tuple[str, ...]
    """All classes of the image set, in its order."""
    image_prefix: str | None = None
    """Beginning of an image's address, in a format of addresses; None: the format's own."""

    # Links are resolved in these two: `..` counts from a link's target, not from the link.
    @cached_property
    def _root(self) -> Path:
        return self.root.resolve()

    @cached_property
    def _folder(self) -> Path:
        return self.out.parent.resolve()

    def path(self, name: str) -> Path:
        """Return the image's absolute path, without any `..`."""
        path = joined(self._root, name)
        return path.parent.resolve() / path.name if ".." in PurePath(name).parts else path

    def relative(self, name: str, folder: Path | None = None) -> str:
        """Return the image's path relative to a folder (default: the file's), with forward slashes; a remote address as it is."""
        path = self.path(name)
        return str(path) if isinstance(path, RemotePath) else PurePath(os.path.relpath(path, folder or self._folder)).as_posix()

    @property
    def parent(self) -> Path:
        """The folder that contains the image set's folder."""
        return self._root.parent


Writer = Callable[[LabelFile, Iterable[LabelRecord], Any], None]
"""Writes all records to a file that is open, or into an empty folder."""
Check = Callable[[LabelFile], object]


@dataclass(frozen=True)
class LabelFormat:
    """A registered format: its name, the suffix of its files (empty: a folder), and the function that writes them."""

    name: str
    suffix: str
    writer: Writer
    checker: Check | None
    """Refuses what the format cannot express."""
    takes_prefix: bool
    """The format names images by addresses, which may begin with another prefix."""

    @property
    def summary(self) -> str:
        """The first line of the format's own file."""
        return summary_of(self.writer)

    def check_path(self, out: Path, image_prefix: str | None = None) -> None:
        """Refuse a file that exists, a folder that cannot be written to, and a prefix for a format without addresses."""
        if image_prefix is not None and not self.takes_prefix:
            takers = ", ".join(other.name for other in LABEL_FORMATS.values() if other.takes_prefix)
            raise UserError(f"--image-prefix does not belong to the format {self.name}, only to: {takers}; leave it out")
        if out.exists():
            raise UserError(f"--out {out}: exists; remove it or choose another name")
        folder = next(folder for folder in out.absolute().parents if folder.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise UserError(f"--out {out}: nothing can be written in {folder}; choose another place")

    def check(self, file: LabelFile) -> None:
        """Refuse, before any work, whatever would keep the labels of an image set from being written."""
        self.check_path(file.out, file.image_prefix)
        if self.checker is not None:
            self.checker(file)

    def write(self, file: LabelFile, records: Iterable[LabelRecord]) -> None:
        """Write the records, one at a time as they come. The file or folder appears when it is complete."""
        with whole_file(file.out) if self.suffix else whole_folder(file.out) as place:
            self.writer(file, records, place)


LABEL_FORMATS: Registry[LabelFormat] = Registry("format")


def register_format(
    name: str, suffix: str, *, check: Check | None = None, takes_prefix: bool = False
) -> Callable[[Writer], Writer]:
    """Return a decorator that registers a function, which writes all records to a file, under `name`."""

    def enter(write: Writer) -> Writer:
        LABEL_FORMATS.add(name, LabelFormat(name, suffix, write, check, takes_prefix))
        return write

    return enter


def find_format(out: Path, name: str | None) -> LabelFormat:
    """Return the format called `name`, or else the only one whose files end as `out` does."""
    suffix = out.suffix.lower()
    if name is not None:
        format = LABEL_FORMATS.find(name, f"--out-format {name}")
        if suffix != format.suffix and format.suffix:
            raise UserError(f"--out {out}: a file in the format {name} ends in {format.suffix}; choose such a name")
        if suffix in {other.suffix for other in LABEL_FORMATS.values()} - {format.suffix}:
            raise UserError(f"--out {out}: the format {name} is a folder of files; choose a name without {suffix}")
        return format
    matching = [format for format in LABEL_FORMATS.values() if suffix and format.suffix == suffix]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(format.name for format in matching)
        raise UserError(f"--out {out}: several formats are {suffix} files; choose one with --out-format ({names})")
    suffixes = ", ".join(f"{format.suffix} ({format.name})" for format in LABEL_FORMATS.values() if format.suffix)
    raise UserError(f"--out {out}: its name does not tell a format; end it in one of {suffixes}, or choose with --out-format")
