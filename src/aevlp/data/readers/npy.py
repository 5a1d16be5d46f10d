"""Formatted `.npy` files, as the field's repositories exchange them (Cole et al., CVPR 2021).

`formatted_{train,val}_images.npy` names the images and `..._labels.npy` has their full labels (0 and 1). The optional
`formatted_train_labels_obs.npy` has the observed labels (1, 0 for unknown, -1). Their `val` is the test split. The labels to
train on are the observed ones or, without that file, the full ones; `--observe single` always draws from the full ones.
The order of the rows is kept.

The names of the images are relative to a folder that differs from set to set; `read` searches for it.
"""

import os
import tokenize
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aevlp.core.errors import UserError, first_few
from aevlp.data.benchmarks import BENCHMARKS
from aevlp.data.dataset import ImageTable, Labels, complete_labels
from aevlp.data.files import (
    CLASSES_FILE,
    fixed_classes,
    holds_text,
    refuse_empty,
    refuse_missing_images,
    refuse_repeated,
    require_file,
)
from aevlp.data.readers import Reader, register

SPLIT_OF = {"train": "train", "val": "test"}  # part in the file names -> split of its images
PLACES = (
    ".",
    "images",
    "JPEGImages",
    "VOCdevkit/VOC2012/JPEGImages",
    "VOC2012/JPEGImages",
    "Flickr",
    "images/Flickr",
    "CUB_200_2011/CUB_200_2011/images",
    "CUB_200_2011/images",
)
"""Folders that images may be named relative to; COCO's names begin with train2014/ or val2014/."""
TRIED = 5  # number of images of each part that are tried to find their folder
DAMAGED = (ValueError, EOFError, OverflowError, MemoryError, RecursionError, tokenize.TokenError, zipfile.BadZipFile)
"""Errors that numpy raises on a truncated file or a damaged header."""
SOURCE = "such files are made by https://github.com/elijahcole/single-positive-multi-label (preproc/)"


def detects(path: Path) -> bool:
    """Return whether one of the files of labels or images is there."""
    return any(_file(path, part, what).is_file() for part in SPLIT_OF for what in ("images", "labels"))


def read(path: Path) -> ImageTable:
    """Return every image that the files name, in their order."""
    names = {part: _names(_file(path, part, "images"), split) for part, split in SPLIT_OF.items()}
    full = {part: _labels(_file(path, part, "labels"), len(names[part]), (0, 1)) for part in SPLIT_OF}
    count = full["train"].shape[1]
    if full["val"].shape[1] != count:
        file = _file(path, "val", "labels")
        raise UserError(f"{file}: {full['val'].shape[1]} classes, but {count} in train; take both files from one set")
    classes, named_by = _classes(path, count)
    observed, observed_in = full["train"], _file(path, "train", "labels")
    if (observed_file := _observed_file(path)) is not None:
        observed, observed_in = _labels(observed_file, len(names["train"]), (-1, 0, 1)), observed_file
        _refuse_contradiction(observed, full["train"], observed_file)
    images = (*names["train"], *names["val"])
    refuse_repeated(images, path, "keep one row of each")
    root = _image_folder(path, names)
    refuse_missing_images(root, images, f"the files in {path} name", "it is the set that they were made for")
    truth = np.concatenate(list(full.values()))
    return ImageTable(
        root=root,
        names=images,
        classes=classes,
        labels=np.concatenate([observed, full["val"]]),
        splits=tuple(SPLIT_OF[part] for part in SPLIT_OF for _ in names[part]),
        kind="npy",
        truth=complete_labels(truth == 1),
        notes=(f"the observed labels of the training images are in {observed_in.name}", *named_by),
    )


def _file(path: Path, part: str, what: str) -> Path:
    return path / f"formatted_{part}_{what}.npy"


def _observed_file(path: Path) -> Path | None:
    """Return the file of observed training labels, if any; newer scripts name the way they were chosen (uniform, size, ...)."""
    plain = _file(path, "train", "labels_obs")
    if plain.is_file():
        return plain
    found = sorted(path.glob("formatted_train_*_labels_obs.npy"))
    if len(found) > 1:
        raise UserError(
            f"{path}: several files of observed labels ({first_few(file.name for file in found)}); "
            f"rename the one to train on to {plain.name}"
        )
    return found[0] if found else None


def _array(file: Path, what: str) -> NDArray[np.generic]:
    require_file(file, what, SOURCE)
    try:
        array = np.load(file, allow_pickle=False)
    except DAMAGED as error:
        # Opening a pickle can run any program.
        if "Object arrays" in str(error):
            raise UserError(
                f"{file}: an array of Python objects, which is not safe to open; if you trust it, save it again as plain text or "
                f'numbers: a = numpy.load("{file.name}", allow_pickle=True); numpy.save("{file.name}", numpy.array(a.tolist()))'
            ) from None
        raise UserError(f"{file}: not a whole .npy file; copy it again") from None
    if not isinstance(array, np.ndarray):
        raise UserError(f"{file}: an archive of several arrays, not a .npy file; save the one array")
    return array


def _names(file: Path, split: str) -> tuple[str, ...]:
    array = _array(file, "the names of the images")
    if array.dtype.kind not in "US" or array.ndim != 1:
        raise UserError(f"{file}: must be one name per image, not {array.dtype}{list(array.shape)}; {SOURCE}")
    if not holds_text(array):
        raise UserError(f"{file}: its names are no text; copy it again")
    names = array.tolist()
    refuse_empty(names, file, split, SOURCE)
    return tuple((os.fsdecode(name) if isinstance(name, bytes) else str(name)).replace("\\", "/") for name in names)


def _labels(file: Path, images: int, values: tuple[int, ...]) -> Labels:
    array = _array(file, "the labels")
    if array.dtype.kind not in "biuf" or array.ndim != 2 or len(array) != images:
        raise UserError(
            f"{file}: must be a number per image and class, for {images:,} images, not {array.dtype}{list(array.shape)}; {SOURCE}"
        )
    if not np.isin(array, values).all():
        raise UserError(f"{file}: has values other than {', '.join(map(str, values))}; {SOURCE}")
    return array.astype(np.int8)


def _classes(path: Path, count: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the class names, and notes about them."""
    fixed = fixed_classes(path)
    if fixed is not None:
        if len(fixed) != count:
            raise UserError(
                f"{path / CLASSES_FILE}: {len(fixed)} names, but the labels have {count} classes; name each, in order"
            )
        return fixed, ()
    for benchmark in BENCHMARKS:
        if benchmark.class_count == count:
            note = f"{count} classes without a {CLASSES_FILE}: their names are taken to be those of {benchmark.title}"
            return benchmark.classes, (note,)
    known = ", ".join(f"{benchmark.class_count} ({benchmark.title})" for benchmark in BENCHMARKS)
    raise UserError(
        f"{path}: {count} classes without names; write them to {path / CLASSES_FILE}, one per line, in the order of the columns "
        f"(names are known for {known})"
    )


def _refuse_contradiction(observed: Labels, full: Labels, file: Path) -> None:
    if observed.shape != full.shape:
        raise UserError(f"{file}: {observed.shape[1]} classes, but the labels have {full.shape[1]}; take both files from one set")
    wrong = (observed != 0) & ((observed == 1) != (full == 1))
    if wrong.any():
        raise UserError(
            f"{file}: {int(wrong.sum()):,} observed labels contradict formatted_train_labels.npy (first in row "
            f"{int(np.flatnonzero(wrong.any(axis=1))[0])}); take both files from one set"
        )


def _image_folder(path: Path, names: dict[str, tuple[str, ...]]) -> Path:
    """Return the folder that the names are relative to: the first that holds any of the tried images."""
    tried = [name for part in names.values() for name in part[:TRIED]]
    for place in PLACES:
        if any((path / place / name).is_file() for name in tried):
            return path / place
    places = ", ".join(PLACES[1:])
    raise UserError(
        f"{path}: none of the first images is there ({first_few(tried[:1])}); looked in this folder and in its {places}; "
        "put the images, or a link to them, in one of these"
    )


LOOKS_LIKE = "formatted_train_images.npy, formatted_train_labels.npy and the same of val"
# Before the official layouts, beside which these files lie: whoever made them wants them.
register(Reader("npy", detects, read, LOOKS_LIKE, rank=-1, official=True))
