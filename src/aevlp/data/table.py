"""What every reader returns: images, classes, labels as given, splits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from aevlp.data.fingerprint import digests

Labels = NDArray[np.int8]
"""int8[N, C]: 1 a confirmed positive, 0 unknown, -1 a confirmed negative."""

SPLITS = ("train", "val", "test")
SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
"""Every spelling of a split that users may write."""


@dataclass(frozen=True)
class Paths(Sequence[Path]):
    """Image files, each path made when it is asked for: of a million images the names are enough to keep."""

    root: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Path: ...

    @overload
    def __getitem__(self, index: slice) -> "Paths": ...

    def __getitem__(self, index: int | slice) -> "Path | Paths":
        if isinstance(index, slice):
            return Paths(self.root, self.names[index])
        return self.root / self.names[index]


@dataclass(frozen=True, eq=False)
class ImageTable:
    """An image set as it lies on disk, before any protocol is applied to it."""

    root: Path
    """Folder that `names` are relative to."""
    names: tuple[str, ...]
    """One per image, with forward slashes; no two are equal."""
    classes: tuple[str, ...]
    """Class names, in the order of the columns of `labels`."""
    labels: Labels
    """int8[N, C] as given: what a 0 means is decided by `aevlp.data.prepare`."""
    splits: tuple[str, ...]
    """One of `SPLITS` per image."""
    kind: str
    """Name of the reader."""
    truth: Labels | None = None
    """int8[N, C] in {1, -1}: the complete labels of every image, for formats that have them; None: not known to be complete."""
    notes: tuple[str, ...] = ()
    """What `aevlp check` should tell about how it was read; each a line."""

    def __post_init__(self) -> None:
        for name, labels in (("labels", self.labels), ("truth", self.truth)):
            if labels is not None and (labels.dtype != np.int8 or labels.shape != (len(self.names), len(self.classes))):
                raise ValueError(f"{name} must be int8[{len(self.names)}, {len(self.classes)}]")
        if len(self.splits) != len(self.names) or not set(self.splits) <= set(SPLITS):
            raise ValueError(f"splits must name one of {SPLITS} per image")

    @property
    def paths(self) -> Paths:
        """The image files, in order."""
        return Paths(self.root, self.names)

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """What the files hold (`aevlp.data.fingerprint`), read once."""
        return tuple(digests(self.paths))
