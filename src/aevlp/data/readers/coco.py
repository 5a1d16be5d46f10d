"""COCO: `annotations/instances_{train,val}2014.json` beside `train2014/` and `val2014/`, or the same of 2017.

train2014 is trained on, val2014 is tested on. A class is positive in an image if any annotation of it is there, crowds included;
images without any annotation are left out (82,081 and 40,137 remain). Classes are the categories by their ids, which have gaps.

The rows are in the order of the image ids *as text* (9 after 10), as the field's formatted files have them (Cole et al.,
CVPR 2021): the single positives, which are drawn row by row, are then those of the published results.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aevlp.core.errors import UserError
from aevlp.data.benchmarks import COCO
from aevlp.data.pieces import file_of, folder_of, refuse_empty, refuse_missing_images, unlisted_images
from aevlp.data.readers import register
from aevlp.data.table import ImageTable

YEARS = ("2014", "2017")
"""With as much of both in one folder, the first is taken, which is the field's."""
SPLIT_OF = {"train": "train", "val": "test"}
"""COCO's name of a part -> the split that its images are in."""
KEPT = frozenset(("images", "annotations", "categories", "id", "image_id", "category_id", "file_name", "name"))


@dataclass(frozen=True)
class _Part:
    """What one file of instances says."""

    classes: dict[int, str]
    """Category id -> name, by id."""
    images: dict[str, frozenset[int]]
    """File name -> category ids in it, in the order of the rows."""
    without: frozenset[str]
    """File names of the images that have no annotation."""


def detects(path: Path) -> bool:
    """Whether there is one of the four pieces of the layout, so that a folder with others missing is told what it lacks."""
    return any(_has(path, year) for year in YEARS)


def read(path: Path) -> ImageTable:
    """Every annotated image of train and val."""
    year = max(YEARS, key=lambda year: _has(path, year))
    files = {part: _instances(path, part, year) for part in SPLIT_OF}
    released = COCO.source(f"annotations{year}")
    parts = {part: _part(file_of(file, f"the annotations of {part}", released), released) for part, file in files.items()}
    classes = parts["train"].classes
    if parts["val"].classes != classes:
        raise UserError(f"{files['val']}: its categories are not those of {files['train'].name}; take both from one release")
    names: list[str] = []
    splits: list[str] = []
    positives: list[frozenset[int]] = []
    notes: list[str] = []
    for part, split in SPLIT_OF.items():
        refuse_empty(parts[part].images, files[part], split, released, "annotated images")
        source = COCO.source(f"{part}{year}")
        folder = folder_of(path / f"{part}{year}", f"the images of {part}", source)
        found = tuple(f"{folder.name}/{name}" for name in parts[part].images)
        refuse_missing_images(path, found, f"the annotations in {files[part].name} name", source)
        names += found
        splits += [split] * len(found)
        positives += parts[part].images.values()
        notes += _notes(folder, parts[part])
    column = {category: number for number, category in enumerate(classes)}
    labels = np.zeros((len(names), len(classes)), dtype=np.int8)
    for row, categories in enumerate(positives):
        labels[row, [column[category] for category in categories]] = 1
    return ImageTable(
        root=path,
        names=tuple(names),
        classes=tuple(classes.values()),
        labels=labels,
        splits=tuple(splits),
        kind=COCO.name,
        truth=np.where(labels == 1, np.int8(1), np.int8(-1)),
        notes=tuple(notes),
    )


def _notes(folder: Path, part: _Part) -> list[str]:
    """What to tell about the images of a folder that are left out."""
    counts = {
        "without any annotation": len(part.without),
        "that the file of annotations does not name": unlisted_images(folder, part.without.union(part.images)),
    }
    return [f"images of {folder.name} {what}, left out: {count:,}" for what, count in counts.items() if count]


def _instances(path: Path, part: str, year: str) -> Path:
    return path / "annotations" / f"instances_{part}{year}.json"


def _has(path: Path, year: str) -> int:
    """How many of the four pieces of a year are there."""
    return sum(_instances(path, part, year).is_file() + (path / f"{part}{year}").is_dir() for part in SPLIT_OF)


def _part(file: Path, source: str) -> _Part:
    try:
        content = json.loads(file.read_bytes(), object_hook=_kept)
        classes = _names(content["categories"], "name", f"{file}: the category")
        file_of_id = _names(content["images"], "file_name", f"{file}: the image")
        pairs = [(int(annotation["image_id"]), int(annotation["category_id"])) for annotation in content["annotations"]]
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: not UTF-8 text (byte {error.start}); unpack it again") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{file}, line {error.lineno}: not JSON ({error.msg}); unpack it again, it may be cut short") from None
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise UserError(
            f"{file}: not a file of COCO instances (images with id and file_name, annotations with image_id and category_id, "
            f"categories with id and name); {source}"
        ) from None
    found: defaultdict[int, set[int]] = defaultdict(set)
    for image, category in pairs:
        found[image].add(category)
    for what, ids, known in (("image", found, file_of_id), ("category", {category for _, category in pairs}, classes)):
        if unknown := sorted(set(ids) - set(known)):
            raise UserError(
                f"{file}: an annotation names the {what} {unknown[0]}, which the file does not describe; unpack it again"
            )
    for what, listed in (("category", classes), ("image", {image: file_of_id[image] for image in found})):
        if twice := [name for name, count in Counter(listed.values()).items() if count > 1]:
            raise UserError(f"{file}: more than one {what} is called '{twice[0]}'; give each a name of its own")
    return _Part(
        classes=dict(sorted(classes.items())),
        images={file_of_id[image]: frozenset(found[image]) for image in sorted(found, key=str)},
        without=frozenset(name for image, name in file_of_id.items() if image not in found),
    )


def _names(records: Iterable[dict[str, Any]], key: str, what: str) -> dict[int, str]:
    """Id -> what each record holds under a key; ids and names are there, and no id is there twice."""
    names: dict[int, str] = {}
    for record in records:
        id, name = int(record["id"]), record[key]
        if name is None or not str(name).strip():
            raise UserError(f"{what} {id} has no {key}; unpack the file again, or name it")
        if id in names:
            raise UserError(f"{what} {id} is described twice ('{names[id]}', '{name}'); unpack the file again, or remove one")
        names[id] = str(name)
    return names


def _kept(record: dict[str, Any]) -> dict[str, Any]:
    """What is needed of an object, dropped as it is parsed: outlines are nine tenths of a file of half a gigabyte."""
    return {key: value for key, value in record.items() if key in KEPT}


register(
    COCO.name,
    detects,
    read,
    looks_like="annotations/instances_train2014.json with train2014/ and val2014/, or 2017",
    official=True,
)
