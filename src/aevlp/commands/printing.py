"""What commands say to the user."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

from aevlp.engine import is_first_process
from aevlp.errors import UserError
from aevlp.sweep import Failure, Outcome, Sweep, Trial, results_table

log = logging.getLogger("aevlp")


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
    failed = {trial.name: outcome for trial, outcome in outcomes if isinstance(outcome, Failure)}
    if not failed:
        return
    message = f"{len(failed)} of {len(outcomes)} trainings failed ({', '.join(failed)}); the same command again goes on with them"
    if all(failure.is_user_error for failure in failed.values()):
        raise UserError(message)
    log.error("%s", message)
    sys.exit(1)
