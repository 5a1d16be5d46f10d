"""The labels of a file as it was written, before its images are looked for; and the table that they make."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from aevlp.data.addresses import find_images
from aevlp.data.dataset import ImageTable
from aevlp.data.files import fixed_classes
from aevlp.data.json_labels import kind_of
from aevlp.data.readers import Reader, register
from aevlp.data.records import LabelRecord, image_table


@dataclass(frozen=True)
class ParsedLabels:
    """Labels of a file, all by one person where the file tells people apart."""

    file: Path
    placed: list[tuple[str, LabelRecord]]
    """A record per image with its place in the file, for messages; its name is the address in the file."""
    classes: tuple[str, ...] | None
    """All classes; None: the file does not list them."""
    who: str = ""
    """The person; empty: not known."""
    has_suffixes: bool = True
    """False: names of images may lack their suffix."""


def table_of(parsed: ParsedLabels, kind: str) -> ImageTable:
    """Return the table of a file's labels. A `classes.txt` beside the file fixes the classes and their order."""
    addresses = [record.name for _, record in parsed.placed]
    names = find_images(addresses, parsed.file, has_suffixes=parsed.has_suffixes)
    placed = [(place, replace(record, name=name)) for (place, record), name in zip(parsed.placed, names, strict=True)]
    folder = parsed.file.parent
    return image_table(placed, folder, fixed_classes(folder) or parsed.classes, kind)


def register_json_file(kind: str, parse: Callable[[Path], list[ParsedLabels]], looks_like: str) -> None:
    """Make a format known whose image set is one JSON file by one person; its first key tells it from others."""

    def detects(path: Path) -> bool:
        return kind_of(path) == kind

    def read(path: Path) -> ImageTable:
        [parsed] = parse(path)
        return table_of(parsed, kind)

    register(Reader(kind, detects, read, looks_like, parse=parse))
