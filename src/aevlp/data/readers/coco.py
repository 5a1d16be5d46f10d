"""COCO: `annotations/instances_{train,val}2014.json` beside `train2014/` and `val2014/`, or the same of 2017.

train2014 is the training split, val2014 the test split. A class is positive in an image with any annotation of it, crowds
included. Images without any annotation are left out (82,081 and 40,137 remain). Classes are the categories in the order of their
ids, which have gaps.

The rows are in the order of the image ids *as text* (9 after 10), as in the field's formatted files (Cole et al., CVPR 2021).
The single positives, which are drawn row by row, are then those of the published results.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aevlp.core.errors import UserError
from aevlp.data.benchmarks import COCO
from aevlp.data.dataset import ImageTable, complete_labels
from aevlp.data.files import refuse_empty, refuse_missing_images, refuse_repeated, require_file, require_folder, unlisted_images
from aevlp.data.readers import Reader, label_matrix, register

YEARS = ("2014", "2017")  # if as many pieces of both are in one folder, the first is read, which is the one that the field uses
SPLIT_OF = {"train": "train", "val": "test"}  # COCO's name of a part -> split of its images
KEPT = frozenset(("images", "annotations", "categories", "id", "image_id", "category_id", "file_name", "name"))


@dataclass(frozen=True)
class _Part:
    """The content of one file of instances."""

    classes: dict[int, str]  # category id -> name, sorted by id
    images: dict[str, frozenset[int]]  # file name -> category ids in it, in the order of the rows
    without: frozenset[str]  # file names of the images that have no annotation


def detects(path: Path) -> bool:
    """Return whether any of the four pieces of the layout is there. One is enough, so that `read` can name the missing ones."""
    return any(_has(path, year) for year in YEARS)


def read(path: Path) -> ImageTable:
    """Return every annotated image of train and val."""
    year = max(YEARS, key=lambda year: _has(path, year))
    files = {part: _instances(path, part, year) for part in SPLIT_OF}
    released = COCO.source(f"annotations{year}")
    parts = {part: _part(require_file(file, f"the annotations of {part}", released), released) for part, file in files.items()}
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
        folder = require_folder(path / f"{part}{year}", f"the images of {part}", source)
        found = tuple(f"{folder.name}/{name}" for name in parts[part].images)
        refuse_missing_images(path, found, f"the annotations in {files[part].name} name", source)
        names += found
        splits += [split] * len(found)
        positives += parts[part].images.values()
        notes += _notes(folder, parts[part])
    known = ((name, {classes[category]: 1 for category in found}) for name, found in zip(names, positives, strict=True))
    labels = label_matrix(known, tuple(classes.values()))
    return ImageTable(
        root=path,
        names=tuple(names),
        classes=tuple(classes.values()),
        labels=labels,
        splits=tuple(splits),
        kind=COCO.name,
        truth=complete_labels(labels == 1),
        notes=tuple(notes),
    )


def _notes(folder: Path, part: _Part) -> list[str]:
    """Return notes about the images of a folder that are left out."""
    counts = {
        "without any annotation": len(part.without),
        "that the file of annotations does not name": unlisted_images(folder, part.without.union(part.images)),
    }
    return [f"images of {folder.name} {what}, left out: {count:,}" for what, count in counts.items() if count]


def _instances(path: Path, part: str, year: str) -> Path:
    return path / "annotations" / f"instances_{part}{year}.json"


def _has(path: Path, year: str) -> int:
    """Return the number of the four pieces of a year that are there."""
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
    for what, listed in (("category names", classes), ("file names", {image: file_of_id[image] for image in found})):
        refuse_repeated(listed.values(), file, "give each a name of its own", what)
    return _Part(
        classes=dict(sorted(classes.items())),
        images={file_of_id[image]: frozenset(found[image]) for image in sorted(found, key=str)},
        without=frozenset(name for image, name in file_of_id.items() if image not in found),
    )


def _names(records: Iterable[dict[str, Any]], key: str, what: str) -> dict[int, str]:
    """Return id -> value of a key for each record; raise if a value is missing or an id occurs twice."""
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
    """Keep the needed keys of an object while the file is parsed: outlines are nine tenths of a file of half a gigabyte."""
    return {key: value for key, value in record.items() if key in KEPT}


LOOKS_LIKE = "annotations/instances_train2014.json with train2014/ and val2014/, or 2017"
register(Reader(COCO.name, detects, read, LOOKS_LIKE, official=True))
