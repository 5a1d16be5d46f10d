"""Cells of a CSV that a spreadsheet would run as a formula, such as a class called =HYPERLINK("http://...").

Files of ours are read back, so a cell must still say the same. An image gets `./` before its name, which is the same file. A
class name that could run something is refused; other names, such as -other or @home, are written as they are.
"""

from collections.abc import Iterable

from aevlp.core.errors import UserError

_BEGINNINGS = tuple("=+-@\t\r")
_ACTIONS = "(|!"  # a call, another program, another sheet


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet that opens this text in a cell could run something."""
    return text.lstrip(" ").startswith(_BEGINNINGS) and any(mark in text for mark in _ACTIONS)


def path_cell(name: str) -> str:
    """Return a relative or absolute path that names the same file and is no formula."""
    return f"./{name}" if name.startswith(_BEGINNINGS) else name


def text_cell(text: str) -> str:
    """Return a text for people, in a file that is not read back: a formula with an apostrophe before it."""
    return f"'{text}" if is_formula(text) else text


def refuse_formulas(classes: Iterable[str], where: str) -> None:
    """Refuse class names that a spreadsheet would run; `where` opens the message."""
    for name in classes:
        if is_formula(name):
            raise UserError(f"{where}: a spreadsheet would run the class name '{name}' as a formula; write a .jsonl file instead")
