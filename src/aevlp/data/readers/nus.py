"""NUS-WIDE: the official lists and concept files beside `Flickr/`, as the official archives unpack.

`ImageList/TrainImagelist.txt` lists what is trained on, `TestImagelist.txt` what is tested on, and the rows keep that order.
Labels are those of `Groundtruth/TrainTestLabels/Labels_{concept}_{Train,Test}.txt`, a 0 or 1 per line of these lists, or else
those of `Groundtruth/AllLabels/Labels_{concept}.txt`, a 0 or 1 per line of `Imagelist.txt`. Rows without any positive stay.

Hardly anyone has all the images: many are gone from Flickr. Those that are listed and not there stay in the table as files
that cannot be read, so that `--bad-images` decides about them.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aevlp.core.errors import UserError
from aevlp.data.benchmarks import NUS
from aevlp.data.classes import some, text_of
from aevlp.data.pieces import file_of, folder_of, missing_files, other_spelling, refuse_empty
from aevlp.data.readers import register
from aevlp.data.table import ImageTable

SPLIT_OF = {"Train": "train", "Test": "test"}
"""The lists' name of a part -> the split that its images are in."""
ALL, BY_PART = "Groundtruth/AllLabels", "Groundtruth/TrainTestLabels"
ZERO, ONE = b"01"
BLANK = b" \t\r\n"

Positive = NDArray[np.bool_]


def detects(path: Path) -> bool:
    """Whether there is an official list of images or a folder of concept files, so that what is missing beside it is named."""
    lists = any(_list(path, part).is_file() for part in ("", *SPLIT_OF))
    return lists or any(_place(path, folder).is_dir() for folder in (ALL, BY_PART))


def read(path: Path) -> ImageTable:
    """Every image of the two lists, those of Train first."""
    classes, notes = _concepts(path)
    lists = {part: _listed(path, part) for part in SPLIT_OF}
    for part, listed in lists.items():
        refuse_empty(listed, _list(path, part), SPLIT_OF[part], NUS.source("image_list"))
    images = [name for listed in lists.values() for name in listed]
    _refuse_repeated(images, f"{path}: TrainImagelist.txt and TestImagelist.txt")
    by_part = _place(path, BY_PART)
    shows = _labels_by_part(by_part, classes, lists) if by_part.is_dir() else _all_labels(path, classes, images)
    folder = folder_of(path / "Flickr", "the images", NUS.source("images"))
    missing = missing_files(folder, images)
    if len(missing) == len(images):
        what_to_do = f"{other_spelling(folder, missing)}unpack the images: {NUS.source('images')}"
        raise UserError(f"{folder}: none of the {len(images):,} listed images is there ({some(images)}); {what_to_do}")
    if missing:
        notes = (*notes, f"{len(missing):,} of the {len(images):,} listed images are not in {folder}")
    return ImageTable(
        root=path,
        names=tuple(f"{folder.name}/{name}" for name in images),
        classes=classes,
        labels=shows.astype(np.int8),
        splits=tuple(SPLIT_OF[part] for part, listed in lists.items() for _ in listed),
        kind=NUS.name,
        truth=np.where(shows, np.int8(1), np.int8(-1)),
        notes=notes,
    )


def _place(path: Path, name: str) -> Path:
    """Where a file or folder of an archive is: in the folder that the archive makes or, unpacked without it, beside the rest."""
    official, bare = path / name, path / Path(name).name
    return bare if bare.exists() and not official.exists() else official


def _concepts(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The concepts in the order of the official file, and what to tell about them."""
    file = _place(path, "ConceptsList/Concepts81.txt")
    if not file.is_file():
        return NUS.classes, (f"{file} is not there: its {NUS.class_count} official names are used",)
    concepts = tuple(line.strip() for line in text_of(file).splitlines() if line.strip())
    if not concepts:
        raise UserError(f"{file}: no concepts in it; {NUS.source('concepts')}")
    if len(set(concepts)) < len(concepts):
        raise UserError(f"{file}: a concept is named twice; {NUS.source('concepts')}")
    return concepts, ()


def _list(path: Path, part: str) -> Path:
    """The list of a part or, without a name, of all images."""
    return _place(path, f"ImageList/{part}Imagelist.txt")


def _listed(path: Path, part: str) -> list[str]:
    """The images of a list, with forward slashes."""
    file = file_of(_list(path, part), "a list of images", NUS.source("image_list"))
    return [line.strip().replace("\\", "/") for line in text_of(file).splitlines() if line.strip()]


def _refuse_repeated(images: Sequence[str], lists: str) -> None:
    repeated = [name for name, count in Counter(images).items() if count > 1]
    if repeated:
        raise UserError(f"{lists}: {len(repeated):,} images are listed twice ({some(repeated)}); {NUS.source('image_list')}")


def _labels_by_part(folder: Path, classes: Sequence[str], lists: dict[str, list[str]]) -> Positive:
    """bool[N, C] from the files of the two parts, one after the other."""
    columns = [
        np.concatenate([_values(folder / f"Labels_{name}_{part}.txt", len(listed)) for part, listed in lists.items()])
        for name in classes
    ]
    return np.stack(columns, axis=1)


def _all_labels(path: Path, classes: Sequence[str], images: Sequence[str]) -> Positive:
    """bool[N, C] from the files of all images, which are in the order of a list of their own."""
    folder = folder_of(_place(path, ALL), f"the labels, unless there is {path / BY_PART}", NUS.source("labels"))
    file, listed = _list(path, ""), _listed(path, "")
    _refuse_repeated(listed, str(file))
    row_of = {name: row for row, name in enumerate(listed)}
    unknown = [name for name in images if name not in row_of]
    if unknown:
        raise UserError(
            f"{file}: {len(unknown):,} of the {len(images):,} images to train and test on are not in it ({some(unknown)}); "
            f"{NUS.source('image_list')}"
        )
    rows = np.array([row_of[name] for name in images], dtype=np.intp)
    return np.stack([_values(folder / f"Labels_{name}.txt", len(row_of))[rows] for name in classes], axis=1)


def _values(file: Path, count: int) -> Positive:
    """bool[count]: the zeros and ones of a file, one per line."""
    content = np.frombuffer(file_of(file, "the labels of a concept", NUS.source("labels")).read_bytes(), dtype=np.uint8)
    places = np.flatnonzero((content == ZERO) | (content == ONE))
    others = np.delete(content, places)
    if not np.isin(others, list(BLANK)).all() or (np.diff(places) == 1).any():
        raise UserError(f"{file}: must have one 0 or 1 per line and nothing else; {NUS.source('labels')}")
    if len(places) != count:
        raise UserError(f"{file}: {len(places):,} labels, but {count:,} images are listed; {NUS.source('labels')}")
    shows: Positive = content[places] == ONE
    return shows


register(NUS.name, detects, read, looks_like="NUS-WIDE: ImageList/, Groundtruth/, Flickr/", official=True)
