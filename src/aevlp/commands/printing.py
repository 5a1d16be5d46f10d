"""What commands say to the user."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from aevlp.compare import stop_for_failures
from aevlp.engine import is_first_process
from aevlp.sweep import Outcome, Sweep, Trial, results_table


def show(what: Any) -> None:
    """Prints a text or a table; of several processes, the first."""
    if not is_first_process():
        return
    if isinstance(what, str):
        print(what)
    else:
        from rich.console import Console

        Console(width=None if sys.stdout.isatty() else 120).print(what)


def conclude(sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]], *, title: str, caption: str) -> None:
    """Prints the table of a sweep; where a training failed, the command does too."""
    show(results_table(sweep, outcomes, title=title, caption=caption))
    stop_for_failures(((trial.name, outcome) for trial, outcome in outcomes), "trainings")
