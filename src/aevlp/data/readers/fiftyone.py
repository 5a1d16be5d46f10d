"""FiftyOne: the `labels.json` of a `FiftyOneImageClassificationDataset`, with one target or several per image.

A target is the index of a class, its name, or an object with the `label`, a `confidence` and `attributes`. The attribute `state`
tells accepted, rejected and proposed labels; without it a label is observed. `aevlp label` also writes `images`: split and
completeness of each image, which FiftyOne does not keep.
"""

from pathlib import Path
from typing import Any

from aevlp.core.errors import UserError
from aevlp.data.annotations import COMPLETE
from aevlp.data.json_labels import (
    ImageEntry,
    as_answer,
    as_flag,
    as_names,
    as_number,
    as_object,
    as_split,
    as_state,
    as_text,
    load_json,
)
from aevlp.data.label_file import ParsedLabels, register_json_file


def parse(path: Path) -> list[ParsedLabels]:
    """Return the labels in the file."""
    content = as_object(load_json(path), f"{path}: the content")
    if "labels" not in content:
        raise UserError(f"{path}: no 'labels' in it, which a file of FiftyOne has; export it again")
    classes = None if content.get("classes") is None else as_names(content["classes"], f"{path}: 'classes'")
    images = as_object(content.get("images") or {}, f"{path}: 'images'")
    placed = []
    for name, targets in as_object(content["labels"], f"{path}: 'labels'").items():
        place = f"{path}: '{name}'"
        as_text(name, f"{path}: the name of an image")
        entry = _entry(as_object(images.get(name) or {}, f"{place} in 'images'"), ImageEntry(name, place))
        for target in [] if targets is None else targets if isinstance(targets, list) else [targets]:
            _add(target, entry, classes)
        placed.append((place, entry.record()))
    return [ParsedLabels(path, placed, classes, has_suffixes=False)]


def _entry(image: dict[str, Any], entry: ImageEntry) -> ImageEntry:
    entry.split = as_split(image.get("split"), entry.place)
    entry.is_complete = as_flag(image.get("complete"), f"{entry.place}: 'complete'")
    if (answer := as_answer(image, entry.place)) is not None:
        entry.answers[COMPLETE] = answer
    return entry


def _add(target: object, entry: ImageEntry, classes: tuple[str, ...] | None) -> None:
    """Enter a target of an image."""
    given = target if isinstance(target, dict) else {"label": target}
    label = given.get("label")
    if classes is None or isinstance(label, str):
        label = as_text(label, f"{entry.place}: a label")
        if classes is not None and label not in classes:
            raise UserError(f"{entry.place}: the label '{label}' is not in 'classes'; correct it, or add it there")
    else:
        number = as_number(label, f"{entry.place}: a label")
        if not 0 <= number < len(classes):
            raise UserError(f"{entry.place}: there is no class number {number}, only 0 to {len(classes) - 1}; correct it")
        label = classes[number]
    attributes = given.get("attributes")
    attributes = {**given, **as_object({} if attributes is None else attributes, f"{entry.place}: 'attributes'")}
    entry.add(label, as_state(attributes.get("state"), entry.place), attributes)


register_json_file("fiftyone", parse, "a .json file with classes and labels, as FiftyOne exports them")
