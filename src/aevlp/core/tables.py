"""Text and tables for people, on standard output."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from aevlp.core.processes import is_first_process


def show(what: Any) -> None:
    """Print a text or a table; of several processes, only the first prints."""
    if not is_first_process():
        return
    with stop_on_closed_pipe():
        print(what if isinstance(what, str) else _drawn(what), flush=True)


def next_steps(*commands: Sequence[object]) -> str:
    """Return a line for each command that people mostly give next, as they would type it; the first begins with `next:`."""
    lines = [shlex.join(["aevlp", *map(str, command)]) for command in commands]
    return "\n".join(f"{'     ' if position else 'next:'} {line}" for position, line in enumerate(lines))


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, a line per row."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _drawn(table: Any) -> str:
    """Render a table as text in the terminal's colours; rich itself would exit on a closed pipe."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    with console.capture() as text:
        console.print(table)
    return text.get().removesuffix("\n")


@contextmanager
def stop_on_closed_pipe() -> Iterator[None]:
    """Stop quietly when standard output is closed (`aevlp ... | head`)."""
    try:
        yield
    except BrokenPipeError:  # buffered text must not raise again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
