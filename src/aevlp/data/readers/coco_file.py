"""COCO file: one JSON file with `images`, `annotations` and `categories`, as `aevlp label` and many tools write it.

A class is a label of an image with any annotation of it, be it a box or the whole image. The label is observed unless the
annotation, or its `attributes`, has a `state`: accepted, rejected or proposed. An image has the categories in
`neg_category_ids` not. Classes are the categories in the order of the file.
"""

from pathlib import Path
from typing import Any

from aevlp.core.errors import UserError
from aevlp.data.annotations import COMPLETE, State
from aevlp.data.files import refuse_repeated
from aevlp.data.json_labels import (
    ImageEntry,
    as_answer,
    as_flag,
    as_list,
    as_number,
    as_object,
    as_split,
    as_state,
    as_text,
    load_json,
)
from aevlp.data.label_file import ParsedLabels, register_json_file

OUTLINES = ("segmentation", "keypoints")  # nine tenths of a large file


def parse(path: Path) -> list[ParsedLabels]:
    """Return the labels in the file."""
    content = as_object(load_json(path, OUTLINES), f"{path}: the content")
    for key in ("images", "annotations", "categories"):
        if key not in content:
            raise UserError(f"{path}: no '{key}' in it, which a COCO file has; write it again")
    classes = _by_id(content["categories"], "name", f"{path}: category")
    refuse_repeated(classes.values(), path, "give each a name of its own", "category names")
    named = _by_id(content["images"], "file_name", f"{path}: image")
    refuse_repeated(named.values(), path, "make one entry of them", "image names")
    entries = {}
    for image in content["images"]:
        number = int(image["id"])
        place = f"{path}: image {number} ('{named[number]}')"
        entries[number] = _entry(image, ImageEntry(named[number], place), classes)
    for position, value in enumerate(as_list(content["annotations"], f"{path}: 'annotations'"), 1):
        annotation = as_object(value, f"{path}: annotation {position}")
        place = f"{path}: annotation {annotation.get('id', position)}"
        image = as_number(annotation.get("image_id"), f"{place}: 'image_id'")
        if image not in entries:
            raise UserError(f"{place} names the image {image}, which the file does not describe; add or correct it")
        attributes = annotation.get("attributes")
        attributes = {**(attributes if isinstance(attributes, dict) else {}), **annotation}
        label = _category(annotation.get("category_id"), classes, place)
        entries[image].add(label, as_state(attributes.get("state"), place), attributes, confidence="score")
    placed = [(entry.place, entry.record()) for entry in entries.values()]
    return [ParsedLabels(path, placed, tuple(classes.values()))]


def _entry(image: dict[str, Any], entry: ImageEntry, classes: dict[int, str]) -> ImageEntry:
    """Return the entry of an image with its rejected labels and its completeness."""
    entry.split = as_split(image.get("split"), entry.place)
    entry.is_complete = as_flag(image.get("complete"), f"{entry.place}: 'complete'")
    for value in as_list(image.get("neg_category_ids"), f"{entry.place}: 'neg_category_ids'"):
        entry.add(_category(value, classes, entry.place), State.REJECTED, {})
    for value in as_list(image.get("answers"), f"{entry.place}: 'answers'"):
        given = as_object(value, f"{entry.place}: an answer")
        category = given.get("category_id")
        label = COMPLETE if category is None else _category(category, classes, entry.place)
        if (answer := as_answer(given, entry.place)) is not None:
            entry.answers[label] = answer
    return entry


def _category(value: object, classes: dict[int, str], place: str) -> str:
    number = as_number(value, f"{place}: the category")
    if number not in classes:
        raise UserError(f"{place} names the category {number}, which the file does not describe; add or correct it")
    return classes[number]


def _by_id(values: object, key: str, what: str) -> dict[int, str]:
    """Return id -> value of a key for each entry of a list; raise if an id occurs twice."""
    found: dict[int, str] = {}
    for position, value in enumerate(as_list(values, f"{what}: the list"), 1):
        entry = as_object(value, f"{what} {position}")
        number = as_number(entry.get("id"), f"{what} {position}: 'id'")
        if number in found:
            raise UserError(f"{what} {number} is described twice; remove one of the entries")
        found[number] = as_text(entry.get(key), f"{what} {number}: '{key}'")
    return found


register_json_file("coco-file", parse, "a .json file with images, annotations and categories, as in COCO")
