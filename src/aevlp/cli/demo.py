"""aevlp demo: the embedded world."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aevlp.cli.printing import conclude
from aevlp.core.errors import require
from aevlp.core.options import Parser, options_of
from aevlp.core.processes import EngineOptions, is_first_process


def demo(argv: Sequence[str]) -> None:
    """The embedded world, end to end: draw scenes, score, train several methods, print one table."""
    parser = Parser("demo", demo.__doc__ or "")
    parser.add_argument(
        "--out", type=Path, default=Path("demo-run"), metavar="DIR", help="folder for everything (default: demo-run)"
    )
    parser.add_argument(
        "--methods", default="full,an,gr,aevlp", metavar="A,B,..", help="methods to train (default: full,an,gr,aevlp)"
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="trainings per method, with seeds 0..N-1 (default: 1)")
    for option in options_of("", EngineOptions):
        parser.add_option(option)
    given = parser.read(argv)

    require(given.seeds >= 1, "seeds", "at least 1", given.seeds)

    from aevlp.experiments.demo.tour import tour

    engine = {key: value for key, value in vars(given).items() if key in ("device", "precision")}
    sweep, outcomes = tour(given.out, given.methods.split(","), given.seeds, engine)

    from aevlp.reports.sweep_page import write_compare_report

    if is_first_process():
        write_compare_report(given.out, sweep, outcomes, data=given.out / "world")
    where = f"everything is in {given.out}: report.html, world/ (images), views/ (store), METHOD-SEED/ (runs)"
    conclude(sweep, outcomes, title="demo world", caption=where)
