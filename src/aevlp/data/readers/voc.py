"""PASCAL VOC: a `VOCdevkit/VOC2012` tree (or VOC2007), as the official archive unpacks.

`ImageSets/Main/train.txt` lists what is trained on, `val.txt` what is tested on: the labels of VOC's own test set are not
published, and results are reported on val. The rows keep the order of these lists, which is that of the names.

Labels are those of `Main/{class}_{train,val}.txt`, forty small files instead of 11,540 XML files: 1 says that the image shows
an object of the class, 0 that it shows only objects marked difficult, -1 that it shows none. What counts is 1, so that
difficult-only objects do not, which is what the field does. The lists are complete: what is not positive is negative.
"""

from pathlib import Path

import numpy as np

from aevlp.core.errors import UserError
from aevlp.data.benchmarks import VOC
from aevlp.data.classes import text_of
from aevlp.data.pieces import file_of, folder_of, refuse_empty, refuse_missing_images, unlisted_images
from aevlp.data.readers import register
from aevlp.data.table import ImageTable, Labels

YEARS = ("VOC2012", "VOC2007")
"""Where a VOCdevkit holds both, the first is taken; the path of the other one chooses that."""
SPLIT_OF = {"train": "train", "val": "test"}
"""Name of a list -> the split that its images are in."""
MARKS = {"-1": -1, "0": -1, "1": 1}
OWN = "describe a set of your own by a table (docs/data.md shows the smallest)"
"""For those who have their own images in the folders of VOC, as tools for annotation write them."""


def detects(path: Path) -> bool:
    """Whether there is a folder that only VOC calls so, so that a tree with other pieces missing is told what it lacks."""
    return _root(path) is not None


def read(path: Path) -> ImageTable:
    """Every image that the lists train and val of `ImageSets/Main` name."""
    root = _root(path)
    if root is None:
        places = ", ".join(str(place) for place in _places(path))
        source = VOC.source(YEARS[0])
        raise UserError(f"{path}: no VOC tree (ImageSets/Main, JPEGImages); looked for it in {places}; {source}")
    named = (root.name, root.resolve().name)  # "." has no name of its own
    source = VOC.source(next((year for year in YEARS if year in named), YEARS[0]))
    main = folder_of(root / "ImageSets" / "Main", "the lists of images", f"{source}; {OWN}")
    classes = VOC.classes
    _refuse_lists_of_others(main, classes)
    names: list[str] = []
    splits: list[str] = []
    parts: list[Labels] = []
    for part, split in SPLIT_OF.items():
        file = file_of(main / f"{part}.txt", f"the list of {part} images", source)
        listed = [line.split()[0] for line in text_of(file).splitlines() if line.strip()]
        refuse_empty(listed, file, split, source)
        _refuse_repeated(names, listed, file)
        columns = [_marks(main / f"{name}_{part}.txt", name, listed, source) for name in classes]
        names += listed
        splits += [split] * len(listed)
        parts.append(np.stack(columns, axis=1))
    truth = np.concatenate(parts)
    images = folder_of(root / "JPEGImages", "the images", source)
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
    """The folder of the year, at the path or below it: the first with two of its folders, or else with one that others lack."""
    places = _places(path)
    whole = [place for place in places if _has(place, "ImageSets/Main", "JPEGImages", "Annotations") >= 2]
    return next(iter([*whole, *(place for place in places if _has(place, "ImageSets/Main", "JPEGImages"))]), None)


def _has(place: Path, *folders: str) -> int:
    return sum((place / folder).is_dir() for folder in folders)


def _refuse_lists_of_others(main: Path, classes: tuple[str, ...]) -> None:
    listed = {file.stem.rpartition("_")[0] for file in main.glob("*.txt")}
    if listed and listed.isdisjoint(classes):
        raise UserError(
            f"{main}: these are not PASCAL VOC's own lists, there is none of its {len(classes)} classes "
            f"({classes[0]}_train.txt, ...); {OWN}"
        )


def _refuse_repeated(before: list[str], listed: list[str], file: Path) -> None:
    seen = set(before)
    for name in listed:
        if name in seen:
            raise UserError(f"{file}: '{name}' is listed twice, here or in train.txt; remove one of them")
        seen.add(name)


def _marks(file: Path, name: str, listed: list[str], source: str) -> Labels:
    """int8[N] in {1, -1}: whether each of the listed images shows the class."""
    file_of(file, f"which images show the class {name}", source)
    mark_of: dict[str, str] = {}
    for number, line in enumerate(text_of(file).splitlines(), 1):
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


register(VOC.name, detects, read, looks_like="a VOCdevkit/VOC2012 tree with ImageSets/Main and JPEGImages", official=True)
