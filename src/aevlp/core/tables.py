"""Text and tables for people, on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aevlp.core.engine import is_first_process


def show(what: Any) -> None:
    """Print a text or a table; of several processes, only the first prints."""
    if not is_first_process():
        return
    with to_a_reader():
        print(what if isinstance(what, str) else _drawn(what), flush=True)


def _drawn(table: Any) -> str:
    """Render a table as text in the terminal's colours; rich itself would exit on a closed pipe."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120)
    with console.capture() as text:
        console.print(table)
    return text.get().removesuffix("\n")


@contextmanager
def to_a_reader() -> Iterator[None]:
    """Stop quietly when standard output is closed (`aevlp ... | head`)."""
    try:
        yield
    except BrokenPipeError:  # what is still buffered must not be an error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
