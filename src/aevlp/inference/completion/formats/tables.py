"""The parts that formats without a list of classes share: a `classes.txt` beside the file keeps the classes and their order."""

from collections.abc import Iterable, Iterator

from aevlp.core.errors import UserError
from aevlp.core.files import write_text
from aevlp.data.files import CLASSES_FILE, fixed_classes
from aevlp.data.records import LabelRecord
from aevlp.inference.completion.formats.registry import LabelFile


def check_classes(file: LabelFile) -> None:
    """Refuse class names that `classes.txt` cannot hold, and a `classes.txt` beside the file that lists other classes."""
    for name in file.classes:
        if name != name.strip():  # readers strip names
            raise UserError(
                f"--out {file.out}: the class name '{name}' begins or ends with a space, which is lost in this format; "
                "rename the class, or write another format"
            )
    _has_classes_file(file)


def table_name(file: LabelFile, name: str) -> str:
    """Return the image's path relative to the table, so that readers find it."""
    relative = file.relative(name)
    return relative if relative == relative.lstrip() else f"./{relative}"  # readers strip cells


def with_classes(file: LabelFile, records: Iterable[LabelRecord]) -> Iterator[LabelRecord]:
    """Yield the records, then write a `classes.txt` if the names in the file alone would not give the classes."""
    seen: set[str] = set()
    for record in records:
        seen.update(record.confirmed, record.rejected, *record.scores.values())
        yield record
    if tuple(sorted(seen)) != file.classes and not _has_classes_file(file):
        write_text(file.out.parent / CLASSES_FILE, "".join(f"{name}\n" for name in file.classes))


def _has_classes_file(file: LabelFile) -> bool:
    """Return whether there is a `classes.txt` beside the file; refuse one that lists other classes."""
    found = fixed_classes(file.out.parent)
    if found is not None and found != file.classes:
        raise UserError(
            f"--out {file.out}: {file.out.parent / CLASSES_FILE} is read together with this file, and lists other classes "
            "than the image set; choose another folder"
        )
    return found is not None
