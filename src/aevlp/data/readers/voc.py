"""PASCAL VOC: a `VOCdevkit/VOC2012` tree (or VOC2007), as the official archive unpacks.

`ImageSets/Main/train.txt` lists the training images, `val.txt` the test images: the labels of VOC's own test set are not
published, and results are reported on val. The rows keep the order of these lists, which is that of the names.

Labels come from `Main/{class}_{train,val}.txt`, forty small files instead of 11,540 XML files: 1 marks an image that shows
an object of the class, 0 one that shows only objects marked difficult, -1 one that shows none. Only 1 is positive, as in the
literature. The lists are complete: everything not positive is negative.
"""

from pathlib import Path

import numpy as np

from aevlp.core.errors import UserError
from aevlp.data.benchmarks import VOC
from aevlp.data.dataset import ImageTable, Labels
from aevlp.data.files import (
    read_text,
    refuse_empty,
    refuse_missing_images,
    refuse_repeated,
    require_file,
    require_folder,
    unlisted_images,
)
from aevlp.data.readers import Reader, register

YEARS = ("VOC2012", "VOC2007")  # of a VOCdevkit with both, the first is read; the path of the other folder selects that one
SPLIT_OF = {"train": "train", "val": "test"}  # name of a list -> split of its images
MARKS = {"-1": -1, "0": -1, "1": 1}
OWN = "describe a set of your own by a table (docs/data.md shows the smallest)"
"""Advice for users with their own images in VOC's folders, as annotation tools write them."""


def detects(path: Path) -> bool:
    """Return whether a folder that only VOC has is there. One is enough, so that `read` can name the missing pieces."""
    return _root(path) is not None


def read(path: Path) -> ImageTable:
    """Return every image that the lists train and val of `ImageSets/Main` name."""
    root = _root(path)
    if root is None:
        places = ", ".join(str(place) for place in _places(path))
        source = VOC.source(YEARS[0])
        raise UserError(f"{path}: no VOC tree (ImageSets/Main, JPEGImages); looked for it in {places}; {source}")
    named = (root.name, root.resolve().name)  # "." has no name of its own
    source = VOC.source(next((year for year in YEARS if year in named), YEARS[0]))
    main = require_folder(root / "ImageSets" / "Main", "the lists of images", f"{source}; {OWN}")
    classes = VOC.classes
    _refuse_lists_of_others(main, classes)
    names: list[str] = []
    splits: list[str] = []
    parts: list[Labels] = []
    for part, split in SPLIT_OF.items():
        file = require_file(main / f"{part}.txt", f"the list of {part} images", source)
        listed = [line.split()[0] for line in read_text(file).splitlines() if line.strip()]
        refuse_empty(listed, file, split, source)
        refuse_repeated([*names, *listed], file, "list each image once, in train.txt or in val.txt")
        columns = [_marks(main / f"{name}_{part}.txt", name, listed, source) for name in classes]
        names += listed
        splits += [split] * len(listed)
        parts.append(np.stack(columns, axis=1))
    truth = np.concatenate(parts)
    images = require_folder(root / "JPEGImages", "the images", source)
    files = tuple(f"{images.name}/{name}.jpg" for name in names)
    refuse_missing_images(root, files, f"the lists of {main} name", source)
    unlisted = unlisted_images(images, [f"{name}.jpg" for name in names])
    return ImageTable(
        root=root,
        names=files,
        classes=classes,
        labels=np.where(truth == 1, np.int8(1), np.int8(0)),
        splits=tuple(splits),
        kind=VOC.name,
        truth=truth,
        notes=(f"images of {images} in neither list, left out: {unlisted:,}",) if unlisted else (),
    )


def _places(path: Path) -> list[Path]:
    return [path, *(path / year for year in YEARS), *(path / "VOCdevkit" / year for year in YEARS)]


def _root(path: Path) -> Path | None:
    """Return the folder of the year, at the path or below it: the first with two of VOC's folders, or else with one."""

    def has(place: Path, *folders: str) -> int:
        return sum((place / folder).is_dir() for folder in folders)

    places = _places(path)
    whole = [place for place in places if has(place, "ImageSets/Main", "JPEGImages", "Annotations") >= 2]
    return next(iter([*whole, *(place for place in places if has(place, "ImageSets/Main", "JPEGImages"))]), None)


def _refuse_lists_of_others(main: Path, classes: tuple[str, ...]) -> None:
    listed = {file.stem.rpartition("_")[0] for file in main.glob("*.txt")}
    if listed and listed.isdisjoint(classes):
        raise UserError(
            f"{main}: these are not PASCAL VOC's own lists: none is of its {len(classes)} classes "
            f"({classes[0]}_train.txt, ...); {OWN}"
        )


def _marks(file: Path, name: str, listed: list[str], source: str) -> Labels:
    """Return int8[N]: 1 for each listed image that shows the class, -1 for the others."""
    require_file(file, f"the marks of the class {name}", source)
    mark_of: dict[str, str] = {}
    for number, line in enumerate(read_text(file).splitlines(), 1):
        match line.split():
            case [image, mark] if mark in MARKS:
                if mark_of.setdefault(image, mark) != mark:
                    raise UserError(f"{file}, line {number}: {mark} for '{image}', but {mark_of[image]} before; {source}")
            case []:
                pass
            case _:
                raise UserError(f"{file}, line {number}: '{line.strip()}' is not an image's name and 1, 0 or -1; {source}")
    unmarked = [image for image in listed if image not in mark_of]
    if unmarked:
        raise UserError(
            f"{file}: {len(unmarked):,} of the {len(listed):,} listed images are not in it ({unmarked[0]}, ...); {source}"
        )
    return np.array([MARKS[mark_of[image]] for image in listed], dtype=np.int8)


register(Reader(VOC.name, detects, read, looks_like="a VOCdevkit/VOC2012 tree with ImageSets/Main and JPEGImages", official=True))
