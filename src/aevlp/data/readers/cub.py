"""CUB-200-2011: the folder `CUB_200_2011/` of the official archive, with its 312 attributes as classes.

`images.txt` names the images; the rows are in the order of their ids. `train_test_split.txt` marks training images (1) and test
images (0). An attribute is positive where `attributes/image_attribute_labels.txt` marks it as present, however certain the
annotator was. Only the first three numbers of a line of that file (image, attribute, is_present, certainty, time) are read:
some official lines have a column too many after them.
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aevlp.core.errors import UserError, first_few
from aevlp.data.benchmarks import CUB
from aevlp.data.dataset import ImageTable, Labels, complete_labels
from aevlp.data.files import read_lines, refuse_empty, refuse_missing_images, refuse_repeated, require_file, require_folder
from aevlp.data.readers import Reader, register

FOLDER = "CUB_200_2011"
IMAGES, SPLIT, LABELS = "images.txt", "train_test_split.txt", "attributes/image_attribute_labels.txt"
SPLIT_OF = {"1": "train", "0": "test"}
SOURCE = CUB.source("everything")

Ids = NDArray[np.int32]


def detects(path: Path) -> bool:
    """Return whether two of the three files are there, or a folder of that name, so that `read` can name the missing pieces."""
    return _root(path) is not None


def read(path: Path) -> ImageTable:
    """Return every image of `images.txt`."""
    root = _root(path)
    if root is None:
        places = ", ".join(str(place) for place in _places(path))
        raise UserError(f"{path}: no CUB tree ({IMAGES}, {LABELS}); looked for it in {places}; {SOURCE}")
    images = _names(require_file(root / IMAGES, "the names of the images", SOURCE))
    splits = _splits(require_file(root / SPLIT, "the official split", SOURCE), images)
    attributes, notes = _attributes(root)
    labels = _labels(require_file(root / LABELS, "the attributes of the images", SOURCE), images, attributes)
    folder = require_folder(root / "images", "the images", SOURCE)
    names = tuple(f"{folder.name}/{name}" for name in images.values())
    refuse_missing_images(root, names, f"{root / IMAGES} names", SOURCE)
    return ImageTable(
        root=root,
        names=names,
        classes=tuple(attributes.values()),
        labels=labels,
        splits=splits,
        kind=CUB.name,
        truth=complete_labels(labels == 1),
        notes=notes,
    )


def _places(path: Path) -> list[Path]:
    return [path, path / FOLDER, path / FOLDER / FOLDER]


def _root(path: Path) -> Path | None:
    """Return the folder of the set, at the path or below it: the first with two of its files, or else the first of its name."""
    places = [place for place in _places(path) if place.is_dir()]
    whole = [place for place in places if sum((place / file).is_file() for file in (IMAGES, SPLIT, LABELS)) >= 2]
    return next(iter([*whole, *(place for place in places if FOLDER in (place.name, place.resolve().name))]), None)


def _numbered(file: Path) -> dict[int, str]:
    """Return id -> text of a file with an id and a text per line, sorted by id."""
    found: dict[int, str] = {}
    for number, line in enumerate(read_lines(file, newline=""), 1):
        match line.split():
            case []:
                continue
            case [id, text] if id.isdecimal() and len(id) < 10:
                if int(id) in found:
                    raise UserError(f"{file}, line {number}: the number {id} is there twice; {SOURCE}")
                found[int(id)] = text
            case _:
                raise UserError(f"{file}, line {number}: '{line.strip()}' is not a number and a text; {SOURCE}")
    if not found:
        raise UserError(f"{file}: an empty file; {SOURCE}")
    return dict(sorted(found.items()))


def _names(file: Path) -> dict[int, str]:
    """Return id -> name, sorted by id; no two names are equal."""
    names = _numbered(file)
    refuse_repeated(names.values(), file, SOURCE, "names")
    return names


def _splits(file: Path, images: dict[int, str]) -> tuple[str, ...]:
    marks = _numbered(file)
    wrong = [name for id, name in images.items() if marks.get(id) not in SPLIT_OF]
    if wrong:
        raise UserError(f"{file}: neither 1 (train) nor 0 (test) for {len(wrong):,} of the images ({first_few(wrong)}); {SOURCE}")
    splits = tuple(SPLIT_OF[marks[id]] for id in images)
    for split in SPLIT_OF.values():
        refuse_empty([name for name in splits if name == split], file, split, SOURCE)
    return splits


def _attributes(root: Path) -> tuple[dict[int, str], tuple[str, ...]]:
    """Return id -> name of the attributes, sorted by id, and notes about them."""
    # The official archive has the file beside the folder, and some copies have moved it.
    for folder in (root.resolve().parent, root, root / "attributes"):
        if (folder / "attributes.txt").is_file():
            return _names(folder / "attributes.txt"), ()
    note = f"attributes.txt is neither in {root} nor beside it: its {CUB.class_count} official names are used"
    return dict(enumerate(CUB.classes, 1)), (note,)


def _labels(file: Path, images: dict[int, str], attributes: dict[int, str]) -> Labels:
    """Return int8[N, C]: 1 where the attribute is present, else 0."""
    cells = _cells(file)
    rows = _positions(cells[:, 0], images, f"{file}: image", IMAGES)
    columns = _positions(cells[:, 1], attributes, f"{file}: attribute", "attributes.txt")
    present = cells[:, 2]
    if not np.isin(present, (0, 1)).all():
        image, attribute, value = cells[np.flatnonzero((present != 0) & (present != 1))[0]]
        raise UserError(f"{file}: image {image} has {value} for attribute {attribute}, not 0 or 1; {SOURCE}")
    cell = rows * len(attributes) + columns
    counts = np.bincount(cell, minlength=len(images) * len(attributes)).reshape(len(images), len(attributes))
    if counts.max() > 1:
        image, attribute = np.argwhere(counts > 1)[0]
        raise UserError(
            f"{file}: {counts[image, attribute]} lines for image {list(images)[image]} and attribute "
            f"{list(attributes)[attribute]}, not one; {SOURCE}"
        )
    lines = counts.sum(axis=1)
    fewer = lines < max(lines.max(), 1)  # a truncated file ends within an image, whose other attributes would count as absent
    if fewer.any():
        names = [name for name, has_fewer in zip(images.values(), fewer, strict=True) if has_fewer]
        raise UserError(
            f"{file}: fewer lines than for other images, or none, for {len(names):,} of the {len(images):,} "
            f"({first_few(names)}); {SOURCE}"
        )
    labels = np.zeros((len(images), len(attributes)), dtype=np.int8)
    labels[rows[present == 1], columns[present == 1]] = 1
    return labels


def _cells(file: Path) -> Ids:
    """Return int32[L, 3]: the first three numbers of every line."""
    if not any(line.strip() for line in read_lines(file, newline="")):
        raise UserError(f"{file}: an empty file; {SOURCE}")
    try:
        return np.loadtxt(file, dtype=np.int32, comments=None, usecols=(0, 1, 2), ndmin=2, encoding="utf-8-sig")
    except (ValueError, OverflowError):
        wrong = f"does not begin with an image, an attribute and 0 or 1; {SOURCE}"
        # `loadtxt` is fast but vague about the line.
        for number, line in enumerate(read_lines(file, newline=""), 1):
            start = line.split()[:3]
            if line.strip() and not (len(start) == 3 and all(re.fullmatch("[0-9]{1,9}", word) for word in start)):
                raise UserError(f"{file}, line {number}: '{line.strip()[:60]}' {wrong}") from None
        raise UserError(f"{file}: a line {wrong}") from None


def _positions(ids: Ids, known: dict[int, str], where: str, named_in: str) -> NDArray[np.intp]:
    """Return intp[L]: the position of each id among the known ones, which are sorted."""
    numbers = np.array(list(known), dtype=np.int32)
    places = np.minimum(np.searchsorted(numbers, ids), len(numbers) - 1)
    unknown = ids[numbers[places] != ids]
    if unknown.size:
        raise UserError(f"{where} {unknown[0]} is not in {named_in}; {SOURCE}")
    return places


register(Reader(CUB.name, detects, read, looks_like=f"{FOLDER}/ with {IMAGES} and {LABELS}", official=True))
