"""What is written where: the file, the image set that it is about, and how it names an image."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath


@dataclass(frozen=True)
class Target:
    """A file of completed labels to be."""

    out: Path
    root: Path
    """Folder that the names of the images are relative to."""
    classes: tuple[str, ...]
    """Of the image set, in its order."""
    image_prefix: str | None = None
    """What an image's address begins with, in a format of addresses; None: the format's own."""

    # Links are followed in these two, since a `..` is taken from where a link leads to, not from where it is.
    @cached_property
    def _root(self) -> Path:
        return self.root.resolve()

    @cached_property
    def _folder(self) -> Path:
        return self.out.parent.resolve()

    def path(self, name: str) -> Path:
        """The image's absolute path, without any `..`."""
        path = self._root / name
        return path.parent.resolve() / path.name if ".." in PurePath(name).parts else path

    def relative(self, name: str, folder: Path | None = None) -> str:
        """The image's path from a folder, or else from that of the file, with forward slashes."""
        return PurePath(os.path.relpath(self.path(name), folder or self._folder)).as_posix()

    @property
    def parent(self) -> Path:
        """The folder that the image set's folder is in."""
        return self._root.parent
