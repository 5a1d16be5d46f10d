"""aevlp bench: the pipeline's speed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from aevlp.cli.arguments import options_from
from aevlp.core.files import write_json
from aevlp.core.options import AtLeast, Options, Parser, options_of
from aevlp.core.processes import EngineOptions
from aevlp.core.remote import local_path
from aevlp.core.tables import show


@dataclass(frozen=True)
class BenchOptions(Options):
    """Options of the measurement."""

    repeats: Annotated[int, AtLeast(1)] | None = None
    """Rounds of each figure; null: as many as the figure has by default."""


def bench(argv: Sequence[str]) -> None:
    """Measure the speed of every part, as a ratio to the fastest it could be, both timed side by side."""
    parser = Parser("bench", bench.__doc__ or "", "aevlp bench --only labels")
    parser.add_argument("--only", metavar="A,B,..", help="figures to measure (default: all that do not take long)")
    parser.add_argument("--out", type=local_path, metavar="FILE.json", help="also write everything to this file (default: no)")
    parser.add_argument("--list", action="store_true", help="list the figures and measure none (default: false)")
    for option in [*options_of("", BenchOptions), *options_of("", EngineOptions)]:
        if option.key != "precision":  # every figure has its own
            parser.add_option(option)
    given = parser.read(argv)
    repeats = BenchOptions(getattr(given, "repeats", None)).repeats
    engine = options_from(given, EngineOptions)

    from aevlp.experiments.bench.run import check_output, figures_named, measure, overview, record, table

    if given.list:
        show(overview())
        return
    figures = figures_named(given.only)
    if given.out is not None:
        check_output(given.out)
    measured = measure(figures, engine, repeats)
    show(table(measured))
    if given.out is not None:
        write_json(given.out, record(measured))
        show(f"written: {given.out}")
