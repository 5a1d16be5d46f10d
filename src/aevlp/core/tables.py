"""Text and tables for people, on standard output."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from aevlp.core.fitted_tables import WIDEST, fitted
from aevlp.core.processes import is_first_process

USUAL = 120  # width of tables in a file or a pipe
WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}  # for `textwrap`


def show(what: str | Table) -> None:
    """Print a text or a table; of several processes, only the first prints."""
    if not is_first_process():
        return
    with stop_on_closed_pipe():
        print(what if isinstance(what, str) else drawn(what), flush=True)


def next_steps(*commands: Sequence[object]) -> str:
    """Return a line for each command that people mostly give next, as they would type it; the first begins with `next:`."""
    lines = [shlex.join(["aevlp", *map(str, command)]) for command in commands]
    return "\n".join(f"{'     ' if position else 'next:'} {line}" for position, line in enumerate(lines))


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, a line per row."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def terminal_or_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table | str:
    """Return a table that fits a terminal or, in a file or a pipe, one in Markdown."""
    if not is_for_people():
        return markdown_table(headings, rows)
    table = Table(*headings)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table without a frame: the first column aligned to the left, the others to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for row in rows:
        for place in range(len(table.columns), len(row)):
            table.add_column(justify="right" if place else "left")
        table.add_row(*map(Text, row))
    return drawn(table).split("\n") if table.rows else []


def named_lines(items: Iterable[tuple[str, str]], *, indent: str = "") -> str:
    """Return a line per name and its text; in a terminal, long texts go on below themselves."""
    known = list(items)
    left = max(len(name) for name, _ in known)
    width = Console().width if is_for_people() else WIDEST
    after = indent + " " * (left + 2)
    return "\n".join(
        fill(text, width, initial_indent=f"{indent}{name:<{left}}  ", subsequent_indent=after, **WHOLE_WORDS)
        for name, text in known
    )


def is_for_people() -> bool:
    """Return whether standard output is a terminal, or is told to have the width of one (COLUMNS)."""
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def drawn(table: Table) -> str:
    """Render a table as text in the terminal's colours; rich itself would exit on a closed pipe."""
    console = Console(width=None if is_for_people() else USUAL)
    width, console.width = console.width, WIDEST
    with console.capture() as text:
        for part in fitted(table, width, console):
            console.print(part, soft_wrap=True)
    return "\n".join(line.rstrip() for line in text.get().splitlines())


@contextmanager
def stop_on_closed_pipe() -> Iterator[None]:
    """Stop quietly when standard output is closed (`aevlp ... | head`)."""
    try:
        yield
    except BrokenPipeError:  # buffered text must not raise again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
