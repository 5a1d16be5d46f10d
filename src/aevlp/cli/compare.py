"""aevlp compare: many runs on one store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aevlp.cli.arguments import swept
from aevlp.cli.printing import conclude
from aevlp.core.errors import require
from aevlp.core.options import Parser
from aevlp.core.processes import is_first_process
from aevlp.experiments.compare import check_place
from aevlp.experiments.compare import compare as run_sweep


def compare(argv: Sequence[str]) -> None:
    """Train several methods, seeds and values of options (--KEY A,B,..) on one store, and print one table."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
        parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for runs, results.csv and report.html")
        parser.add_argument("--seeds", type=int, default=1, metavar="N", help="train each with seeds 0..N-1 (default: 1)")
        parser.add_argument("--jobs", type=int, default=1, metavar="N", help="trainings at a time (default: 1)")

    given, sweep = swept("compare", compare.__doc__ or "", argv, add)
    require(given.seeds >= 1, "seeds", "at least 1", given.seeds)
    require(given.jobs >= 1, "jobs", "at least 1", given.jobs)
    trials = sweep.trials(given.seeds)
    check_place(given.out, trials)
    outcomes = run_sweep(sweep, trials, given.data, given.out, jobs=given.jobs)

    from aevlp.reports.sweep_page import REPORT, write_compare_report

    if is_first_process():
        write_compare_report(given.out, sweep, outcomes, data=given.data)
    where = f"every run: {given.out / 'results.csv'}; report: {given.out / REPORT}"
    conclude(sweep, outcomes, title=str(given.data), caption=where)
