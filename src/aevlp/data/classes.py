"""Class names: the list a user fixes in `classes.txt`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from aevlp.core.errors import UserError, did_you_mean

CLASSES_FILE = "classes.txt"


def some(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and a sign that there are more."""
    listed = list(names)
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def text_of(path: Path) -> str:
    """The text of a UTF-8 file, with or without a byte order mark; line ends are left as they are."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def lines_of(path: Path, *, newline: str) -> Iterator[str]:
    """The lines of a UTF-8 file with their ends, read as they are asked for; `newline` as `open` takes it."""
    try:
        with path.open(encoding="utf-8-sig", newline=newline) as file:
            yield from file
    except UnicodeDecodeError:
        text_of(path)  # says which byte it is: here it is counted from where the last piece began
        raise


def fixed_classes(folder: Path) -> tuple[str, ...] | None:
    """The names in `folder/classes.txt`, one per line in their order; None without such a file."""
    path = folder / CLASSES_FILE
    if not path.is_file():
        return None
    line_of: dict[str, int] = {}
    for number, line in enumerate(text_of(path).splitlines(), 1):
        name = line.strip()
        if name in line_of:
            raise UserError(f"{path}, line {number}: '{name}' is already on line {line_of[name]}; remove one of them")
        if name:
            line_of[name] = number
    if not line_of:
        raise UserError(f"{path}: no class names in it; write one per line, or remove the file")
    return tuple(line_of)


def unknown_class(name: str, classes: Iterable[str], where: str) -> UserError:
    """The error for a class that `classes.txt` does not name; `where` opens the message."""
    near = did_you_mean(name, classes)
    return UserError(f"{where}: class '{name}' is not in {CLASSES_FILE}{near}; correct the name, or add it there")
