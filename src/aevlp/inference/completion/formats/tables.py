"""What CSV and JSONL share: each is itself an image set that `aevlp` reads, with the same classes in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.core.files import write_text
from aevlp.inference.completion.formats.labels import negatives, positives
from aevlp.inference.completion.formats.target import Target
from aevlp.inference.completion.records import Completed


def check_classes(target: Target) -> None:
    """Refuses class names that a table cannot hold, and a `classes.txt` that would be read with it but lists others."""
    for name in target.classes:
        if name != name.strip():  # of names in a table, surrounding spaces are trimmed
            raise UserError(
                f"--out {target.out}: the class name '{name}' begins or ends with a space, which is lost in a table; "
                "rename the class, or write another format"
            )
    _has_its_classes(target)


def named(target: Target, name: str) -> str:
    """The image as a table names it: relative to the table."""
    relative = target.relative(name)
    return relative if relative == relative.lstrip() else f"./{relative}"  # of a cell, surrounding spaces are trimmed


def with_classes(target: Target, records: Iterable[Completed]) -> Iterator[Completed]:
    """The records; after the last, a `classes.txt` is written if the names in the table alone would not give the classes."""
    seen: set[str] = set()
    for record in records:
        seen.update(positives(record), negatives(record))
        yield record
    if tuple(sorted(seen)) != target.classes and not _has_its_classes(target):
        write_text(_classes_file(target), "".join(f"{name}\n" for name in target.classes))


def _has_its_classes(target: Target) -> bool:
    """Whether there is a `classes.txt` beside the file; one that lists other classes is refused."""
    from aevlp.data.files import fixed_classes

    found = fixed_classes(target.out.parent)
    if found is not None and found != target.classes:
        raise UserError(
            f"--out {target.out}: {_classes_file(target)} is read together with this file, and lists other classes "
            "than the image set; choose another folder"
        )
    return found is not None


def _classes_file(target: Target) -> Path:
    from aevlp.data.files import CLASSES_FILE

    return target.out.parent / CLASSES_FILE
