"""What commands say to the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aevlp.compare import stop_for_failures
from aevlp.engine import is_first_process
from aevlp.sweep import Outcome, Sweep, Trial, results_table


def show(what: Any) -> None:
    """Prints a text or a table; of several processes, the first."""
    if not is_first_process():
        return
    with to_a_reader():
        print(what if isinstance(what, str) else _drawn(what), flush=True)


def _drawn(table: Any) -> str:
    """A table as text, with the colours that the terminal has; rich would end the program if nobody read it."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120)
    with console.capture() as text:
        console.print(table)
    return text.get().removesuffix("\n")


@contextmanager
def to_a_reader() -> Iterator[None]:
    """While it lasts, who reads standard output may leave, as `head` does, when he has seen enough."""
    try:
        yield
    except BrokenPipeError:  # what is still buffered must not be an error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def conclude(sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]], *, title: str, caption: str) -> None:
    """Prints the table of a sweep; where a training failed, the command does too."""
    show(results_table(sweep, outcomes, title=title, caption=caption))
    stop_for_failures(((trial.name, outcome) for trial, outcome in outcomes), "trainings")
