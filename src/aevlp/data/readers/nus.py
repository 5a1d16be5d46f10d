"""NUS-WIDE: the official lists and concept files beside `Flickr/`, as the official archives unpack.

`ImageList/TrainImagelist.txt` lists the training images, `TestImagelist.txt` the test images. The rows keep that order.
Labels come from `Groundtruth/TrainTestLabels/Labels_{concept}_{Train,Test}.txt`, a 0 or 1 per line of these lists, or else
from `Groundtruth/AllLabels/Labels_{concept}.txt`, a 0 or 1 per line of `Imagelist.txt`. Rows without any positive stay.

Hardly anyone has all the images: many are gone from Flickr. Listed images that do not exist stay in the table as files
that cannot be read, so that `--bad-images` decides about them.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aevlp.core.errors import UserError, first_few
from aevlp.data.benchmarks import NUS
from aevlp.data.dataset import ImageTable, complete_labels
from aevlp.data.files import missing_files, other_spelling, read_text, refuse_empty, refuse_repeated, require_file, require_folder
from aevlp.data.readers import Reader, register

SPLIT_OF = {"Train": "train", "Test": "test"}  # name of a list -> split of its images
ALL, BY_PART = "Groundtruth/AllLabels", "Groundtruth/TrainTestLabels"
ZERO, ONE = b"01"
BLANK = b" \t\r\n"

Positive = NDArray[np.bool_]


def detects(path: Path) -> bool:
    """Return whether a list of images or a folder of labels is there. One is enough, so that `read` can name what is missing."""
    lists = any(_list(path, part).is_file() for part in ("", *SPLIT_OF))
    return lists or any(_place(path, folder).is_dir() for folder in (ALL, BY_PART))


def read(path: Path) -> ImageTable:
    """Return every image of the two lists, those of Train first."""
    classes, notes = _concepts(path)
    lists = {part: _listed(path, part) for part in SPLIT_OF}
    for part, listed in lists.items():
        refuse_empty(listed, _list(path, part), SPLIT_OF[part], NUS.source("image_list"))
    images = [name for listed in lists.values() for name in listed]
    refuse_repeated(images, f"{path}: TrainImagelist.txt and TestImagelist.txt", NUS.source("image_list"))
    by_part = _place(path, BY_PART)
    shows = _labels_by_part(by_part, classes, lists) if by_part.is_dir() else _all_labels(path, classes, images)
    folder = require_folder(path / "Flickr", "the images", NUS.source("images"))
    missing = missing_files(folder, images)
    if len(missing) == len(images):
        what_to_do = f"{other_spelling(folder, missing)}unpack the images: {NUS.source('images')}"
        raise UserError(f"{folder}: none of the {len(images):,} listed images is there ({first_few(images)}); {what_to_do}")
    if missing:
        notes = (*notes, f"{len(missing):,} of the {len(images):,} listed images are not in {folder}")
    return ImageTable(
        root=path,
        names=tuple(f"{folder.name}/{name}" for name in images),
        classes=classes,
        labels=shows.astype(np.int8),
        splits=tuple(SPLIT_OF[part] for part, listed in lists.items() for _ in listed),
        kind=NUS.name,
        truth=complete_labels(shows),
        notes=notes,
    )


def _place(path: Path, name: str) -> Path:
    """Return the path of a file or folder: in the folder that its archive makes or, if unpacked without it, beside the rest."""
    official, bare = path / name, path / Path(name).name
    return bare if bare.exists() and not official.exists() else official


def _concepts(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the concepts in the order of the official file, and notes about them."""
    file = _place(path, "ConceptsList/Concepts81.txt")
    if not file.is_file():
        return NUS.classes, (f"{file} is not there: its {NUS.class_count} official names are used",)
    concepts = tuple(line.strip() for line in read_text(file).splitlines() if line.strip())
    if not concepts:
        raise UserError(f"{file}: no concepts in it; {NUS.source('concepts')}")
    refuse_repeated(concepts, file, NUS.source("concepts"), "concepts")
    return concepts, ()


def _list(path: Path, part: str) -> Path:
    """Return the path of the list of a part or, for an empty name, of all images."""
    return _place(path, f"ImageList/{part}Imagelist.txt")


def _listed(path: Path, part: str) -> list[str]:
    """Return the images of a list, with forward slashes."""
    file = require_file(_list(path, part), "a list of images", NUS.source("image_list"))
    return [line.strip().replace("\\", "/") for line in read_text(file).splitlines() if line.strip()]


def _labels_by_part(folder: Path, classes: Sequence[str], lists: dict[str, list[str]]) -> Positive:
    """Return bool[N, C] from the files of the two parts, one after the other."""
    columns = [
        np.concatenate([_values(folder / f"Labels_{name}_{part}.txt", len(listed)) for part, listed in lists.items()])
        for name in classes
    ]
    return np.stack(columns, axis=1)


def _all_labels(path: Path, classes: Sequence[str], images: Sequence[str]) -> Positive:
    """Return bool[N, C] from the files of all images, which follow the order of a list of their own."""
    folder = require_folder(_place(path, ALL), f"the labels, unless there is {path / BY_PART}", NUS.source("labels"))
    file, listed = _list(path, ""), _listed(path, "")
    refuse_repeated(listed, file, NUS.source("image_list"))
    row_of = {name: row for row, name in enumerate(listed)}
    unknown = [name for name in images if name not in row_of]
    if unknown:
        raise UserError(
            f"{file}: {len(unknown):,} of the {len(images):,} images to train and test on are not in it ({first_few(unknown)}); "
            f"{NUS.source('image_list')}"
        )
    rows = np.array([row_of[name] for name in images], dtype=np.intp)
    return np.stack([_values(folder / f"Labels_{name}.txt", len(row_of))[rows] for name in classes], axis=1)


def _values(file: Path, count: int) -> Positive:
    """Return bool[count]: the zeros and ones of a file, one per line."""
    content = np.frombuffer(require_file(file, "the labels of a concept", NUS.source("labels")).read_bytes(), dtype=np.uint8)
    places = np.flatnonzero((content == ZERO) | (content == ONE))
    others = np.delete(content, places)
    if not np.isin(others, list(BLANK)).all() or (np.diff(places) == 1).any():
        raise UserError(f"{file}: must have one 0 or 1 per line and nothing else; {NUS.source('labels')}")
    if len(places) != count:
        raise UserError(f"{file}: {len(places):,} labels, but {count:,} images are listed; {NUS.source('labels')}")
    shows: Positive = content[places] == ONE
    return shows


register(Reader(NUS.name, detects, read, looks_like="NUS-WIDE: ImageList/, Groundtruth/, Flickr/", official=True))
