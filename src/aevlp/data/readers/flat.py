"""Flat folder: images beside a `classes.txt`, without observed labels. Enough for proposing labels."""

from pathlib import Path

import numpy as np

from aevlp.core.errors import UserError
from aevlp.data.dataset import ImageTable
from aevlp.data.files import CLASSES_FILE, fixed_classes, images_in
from aevlp.data.readers import Reader, register


def detects(path: Path) -> bool:
    """Return whether images lie directly beside a `classes.txt`."""
    return path.is_dir() and (path / CLASSES_FILE).is_file() and bool(images_in(path))


def read(path: Path) -> ImageTable:
    """Return every image directly in the folder, all labels unknown."""
    classes = fixed_classes(path) if path.is_dir() else None
    if classes is None:
        raise UserError(f"{path}: the format 'flat' is a folder with images and a {CLASSES_FILE}; write one name per line")
    names = tuple(image.name for image in images_in(path))
    return ImageTable(
        root=path,
        names=names,
        classes=classes,
        labels=np.zeros((len(names), len(classes)), dtype=np.int8),
        splits=("train",) * len(names),
        kind="flat",
    )


# After "folder", which reports images that lie beside class folders.
register(Reader("flat", detects, read, looks_like=f"images and a {CLASSES_FILE}, no labels", rank=3))
