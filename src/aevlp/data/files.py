"""Which files in a folder are images, by their names alone."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePath

IMAGE_SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in ("jpg", "jpeg", "jpe", "jfif", "png", "gif", "bmp", "tif", "tiff", "webp", "ppm", "pgm", "pbm", "jp2")
)


def is_hidden(name: str) -> bool:
    """Whether a file or folder was left by a file manager or a tool, not by the user."""
    return name.startswith(".") or name == "__MACOSX"


def is_image(name: str) -> bool:
    """Whether a file name is that of an image."""
    return PurePath(name).suffix.lower() in IMAGE_SUFFIXES and not is_hidden(PurePath(name).name)


def folders_in(folder: Path) -> list[Path]:
    """The visible folders directly inside, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not is_hidden(path.name))


def images_in(folder: Path) -> list[Path]:
    """The images directly inside, sorted by name."""
    return sorted(path for path in folder.iterdir() if is_image(path.name) and path.is_file())


def images_below(folder: Path) -> Iterator[Path]:
    """The images inside at any depth, in no particular order."""

    def fail(error: OSError) -> None:
        raise error  # by default, a folder that may not be read would be passed over in silence

    for place, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not is_hidden(name)]
        yield from (Path(place, name) for name in files if is_image(name))


def has_images(folder: Path) -> bool:
    """Whether there is any image inside at any depth."""
    return next(images_below(folder), None) is not None
