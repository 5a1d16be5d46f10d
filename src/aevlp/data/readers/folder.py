"""Folder per class: `DATA/dog/1.jpg`, or `DATA/train/dog/1.jpg`. One observed positive per image.

The same file name in two class folders stands for two images, since they may differ.
"""

from pathlib import Path

from aevlp.core.errors import UserError, first_few
from aevlp.data.dataset import SPLIT_NAMES, ImageTable
from aevlp.data.files import fixed_classes, folders_in, has_images, images_below, images_in
from aevlp.data.readers import Reader, label_matrix, register


def detects(path: Path) -> bool:
    """Return whether a sub-folder holds an image."""
    return path.is_dir() and any(has_images(folder) for folder in folders_in(path))


def read(path: Path) -> ImageTable:
    """Return every image under a class folder, in the order of their names."""
    if not path.is_dir():
        raise UserError(f"{path}: not a folder; the format 'folder' is a folder with a sub-folder per class")
    tops = folders_in(path)
    # Splits only if all are named like splits: "train" beside "bus" and "car" is a vehicle.
    as_splits = bool(tops) and all(folder.name in SPLIT_NAMES for folder in tops)
    parents = [(SPLIT_NAMES[folder.name], folder) for folder in tops] if as_splits else [("train", path)]

    found: list[tuple[str, str, str]] = []  # name, label, split
    for split, parent in parents:
        if loose := [image.name for image in images_in(parent)]:
            raise UserError(
                f"{parent}: images beside the class folders have no class ({len(loose)}: {first_few(loose)}); "
                "move them into one, or away"
            )
        for folder in folders_in(parent):
            for image in images_below(folder):
                found.append((image.relative_to(path).as_posix(), folder.name, split))
    found.sort()

    classes = fixed_classes(path) or tuple(sorted({label for _, label, _ in found}))
    return ImageTable(
        root=path,
        names=tuple(name for name, _, _ in found),
        classes=classes,
        labels=label_matrix(((f"{path / name}", {label: 1}) for name, label, _ in found), classes),
        splits=tuple(split for _, _, split in found),
        kind="folder",
    )


register(Reader("folder", detects, read, looks_like="a sub-folder per class: DATA/dog/1.jpg", rank=2))
