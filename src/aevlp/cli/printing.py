"""The end of every sweep: its table, and an error if a training failed."""

from __future__ import annotations

from collections.abc import Sequence

from aevlp.config.sweep import Outcome, Sweep, Trial, results_table
from aevlp.core.tables import show
from aevlp.experiments.compare import stop_for_failures


def conclude(sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]], *, title: str, caption: str) -> None:
    """Prints the table of a sweep; where a training failed, the command does too."""
    show(results_table(sweep, outcomes, title=title, caption=caption))
    stop_for_failures(((trial.name, outcome) for trial, outcome in outcomes), "trainings")
