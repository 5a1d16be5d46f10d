"""Features that a user brings, a .npz with a row per image; and the inputs of a trained classifier, images or features."""

import logging
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt
import torch

from aevlp.core.errors import UserError, first_few, one_line
from aevlp.data.dataset import Split
from aevlp.data.files import holds_text
from aevlp.data.label_columns import SPLIT_WORDS
from aevlp.models.classifier import Classifier
from aevlp.models.feature_classifier import FeatureClassifier
from aevlp.training.inputs import FeatureRows, InputFactory, as_files

log = logging.getLogger("aevlp")
FEATURES, IMAGES, FLIPPED = "features", "images", "flipped"
HOW = "write it with numpy.savez(FILE, features=..., images=...)"
Values = npt.NDArray[np.floating]
_warned_of: set[str] = set()  # files whose names were matched by file name: folds and sweeps read one file many times


class UserFeatures:
    """Rows of features by the names of their images.

    A name is the one that the image set has, relative to it. Where no two images share a file name, the file name decides, and
    a warning says so if the folders differ.
    """

    def __init__(self, file: str, *, called: str = "--features ") -> None:
        self.file, self._called = file, called
        arrays = self._arrays()
        self._features: Values = self._table(arrays, FEATURES)
        self._flipped: Values | None = self._table(arrays, FLIPPED) if FLIPPED in arrays else None
        self.names = self._names(arrays[IMAGES])
        if self._flipped is not None and self._flipped.shape != self._features.shape:
            raise self._wrong(
                f"'{FLIPPED}' is {_shape(self._flipped)} and '{FEATURES}' {_shape(self._features)}; make them alike"
            )
        self._rows = {name: row for row, name in enumerate(self.names)}
        self._rows_by_file_name = _by_file_name(self.names)

    @property
    def width(self) -> int:
        """D, the length of a feature vector."""
        return int(self._features.shape[1])

    def fingerprint(self) -> str:
        """Return a hash of the names and features of all images."""
        digest = blake2b(os.fsencode("\0".join(self.names)), digest_size=16)
        for table in (self._features, self._flipped):
            if table is not None:
                digest.update(np.ascontiguousarray(table).data)
        return digest.hexdigest()

    def scale(self, names: Sequence[str]) -> float:
        """Return the root mean square of the features of some images: divided by it, they have the size that heads expect."""
        total = sum(float(np.square(part, dtype=np.float64).sum()) for part in self._in_parts(self.rows(names, "train")))
        if total == 0:
            raise self._wrong("all features are 0; compute them again")
        return float((total / (len(names) * self.width)) ** 0.5)

    def __call__(self, split: Split) -> FeatureRows:
        """Return the features of a split's images; refused if an image has none."""
        rows = self.rows(split.names, split.name)
        tables = [self._features] if self._flipped is None or split.name != "train" else [self._features, self._flipped]
        return FeatureRows(torch.from_numpy(np.stack([table[rows] for table in tables], axis=1)))

    def rows(self, names: Sequence[str], split: str = "") -> npt.NDArray[np.intp]:
        """Return the row [N] of each image; refused if an image has none."""
        table, keys = self._rows, list(names)
        if any(name not in table for name in keys) and self._rows_by_file_name is not None and _by_file_name(keys) is not None:
            table, keys = self._rows_by_file_name, [PurePosixPath(name).name for name in keys]
        missing = [
            name for name, key in zip(names, keys, strict=True) if key not in table or _other_split(name, self.names[table[key]])
        ]
        if missing:
            where = f" of the split '{split}'" if split else ""
            raise self._wrong(
                f"no features for {len(missing)} of {len(names)} images{where} ({first_few(missing)}), while it has rows such as "
                f"'{self.names[0]}'; compute them, or give the images the names that they have in the image set"
            )
        rows = np.array([table[key] for key in keys], dtype=np.intp)
        pairs = ((name, self.names[row]) for name, row in zip(names, rows, strict=True))
        if self.file not in _warned_of and (other := next((pair for pair in pairs if not _is_end(*pair)), None)):
            _warned_of.add(self.file)
            log.warning(
                "%s%s: matched by file name alone, such as '%s' for the image '%s'", self._called, self.file, *other[::-1]
            )
        return rows

    def values(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        """Return the features of these rows, float32 [rows, D]."""
        return self._features[rows].astype(np.float32)

    def _in_parts(self, rows: npt.NDArray[np.intp], size: int = 4096) -> Iterator[Values]:
        """Yield the rows in parts: all of them in float64 would take four times the file's memory."""
        for first in range(0, len(rows), size):
            yield self._features[rows[first : first + size]]

    def _arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        path = Path(self.file)
        if not path.is_file():
            raise self._wrong("no such file; check the path")
        if not zipfile.is_zipfile(path):
            raise self._wrong(f"not a .npz; {HOW}")
        try:
            with np.load(path, allow_pickle=False) as found:
                arrays = {name: found[name] for name in (FEATURES, IMAGES, FLIPPED) if name in found.files}
                names = found.files
        except Exception as error:  # zip and numpy raise many kinds of errors for a damaged file
            why = "it must hold numbers and text, not Python objects" if "allow_pickle" in str(error) else one_line(error)
            raise self._wrong(f"cannot be read as a .npz ({why}); {HOW}") from None
        for name in (FEATURES, IMAGES):
            if name not in arrays:
                raise self._wrong(f"has no array '{name}' (only {first_few(names) or 'none'}); {HOW}")
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):  # numpy reads unknown members as bytes
                raise self._wrong(f"'{name}' in it is no array; {HOW}")
        return arrays

    def _table(self, arrays: dict[str, npt.NDArray[np.generic]], name: str) -> Values:
        table = arrays[name]
        if table.ndim != 2 or not np.issubdtype(table.dtype, np.floating) or 0 in table.shape:
            raise self._wrong(f"'{name}' must be floating-point numbers [N, D], not {_shape(table)}")
        with np.errstate(over="ignore"):  # infinities are refused below
            values: Values = table.astype(np.float32 if table.dtype.itemsize > 4 else table.dtype, copy=False)
        if not all(np.isfinite(values[first : first + 4096]).all() for first in range(0, len(values), 4096)):
            raise self._wrong(f"'{name}' holds a value that is not a finite 32-bit number; compute it again")
        return values

    def _names(self, images: npt.NDArray[np.generic]) -> tuple[str, ...]:
        if images.ndim != 1 or images.dtype.kind != "U" or len(images) != len(self._features):
            raise self._wrong(
                f"'{IMAGES}' must be {len(self._features)} names (text, not bytes), one for each row of '{FEATURES}', "
                f"not {_shape(images)}"
            )
        if not holds_text(images):
            raise self._wrong(f"'{IMAGES}' holds numbers that are no characters; {HOW}")
        names = tuple(str(name) for name in images)
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise self._wrong(f"'{IMAGES}' names an image more than once ({first_few(twice)}); leave out the repeats")
        for name in names:
            try:
                os.fsencode(name)
            except UnicodeEncodeError:
                raise self._wrong(f"'{IMAGES}' has {name!r}, which no file can be called; give the images' names") from None
        return names

    def _wrong(self, what: str) -> UserError:
        return UserError(f"{self._called}{self.file}: {what}")


def _by_file_name(names: Sequence[str]) -> dict[str, int] | None:
    """Return file name -> row; None if two images share a file name."""
    found = {PurePosixPath(name).name: row for row, name in enumerate(names)}
    return found if len(found) == len(names) else None


def _is_end(name: str, other: str) -> bool:
    """Return whether the shorter of two paths is the end of the longer."""
    if name == other:
        return True
    ends = PurePosixPath(name).parts[::-1], PurePosixPath(other).parts[::-1]
    return all(one == two for one, two in zip(*ends, strict=False))


def _other_split(name: str, other: str) -> bool:
    """Return whether two paths name different splits; their images may be numbered alike."""
    if name == other:
        return False
    words = [[part.lower() for part in PurePosixPath(path).parts[:-1]] for path in (name, other)]
    splits = [{SPLIT_WORDS[word] for word in each if word in SPLIT_WORDS} for each in words]
    return bool(splits[0] and splits[1] and splits[0] != splits[1])


def _shape(array: npt.NDArray[np.generic]) -> str:
    return f"{array.dtype} {list(array.shape)}"


def inputs_for(classifier: Classifier, features: str | None, workers: int) -> InputFactory:
    """Return the inputs of a trained classifier: image files or, if it was trained on features, those in the file `features`."""
    if not isinstance(classifier, FeatureClassifier):
        if features is not None:
            raise UserError(f"--features {features}: the model was trained on images and takes no features; leave it out")
        return as_files(classifier.images.size, workers)
    if features is None:
        raise UserError("--features: the model was trained on features alone; name a .npz with those of these images")
    found = UserFeatures(features)
    if found.width != classifier.width:
        raise UserError(
            f"--features {found.file}: {found.width} numbers for each image, and the model takes {classifier.width}; "
            "compute them as for training"
        )
    return found
