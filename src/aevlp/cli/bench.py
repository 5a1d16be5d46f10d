"""aevlp bench: the pipeline's speed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aevlp.core.errors import require
from aevlp.core.options import Parser, options_of
from aevlp.core.processes import EngineOptions
from aevlp.core.tables import show


def bench(argv: Sequence[str]) -> None:
    """Measure the pipeline's speed: each figure a ratio of two things timed side by side."""
    parser = Parser("bench", bench.__doc__ or "")
    parser.add_argument("--only", metavar="A,B,..", help="figures to measure (default: all that do not take long)")
    parser.add_argument("--repeats", type=int, metavar="N", help="rounds of each figure (default: as each figure says)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write everything there too (default: no)")
    parser.add_argument("--list", action="store_true", help="say which figures there are, and measure none (default: false)")
    for option in options_of("", EngineOptions):
        if option.key == "device":
            parser.add_option(option)
    given = parser.read(argv)

    from aevlp.core.files import write_json
    from aevlp.experiments.bench.report import check_free, overview, record, table
    from aevlp.experiments.bench.run import chosen, measure

    if given.list:
        show(overview())
        return
    figures = chosen(given.only)
    require(given.repeats is None or given.repeats >= 1, "repeats", "at least 1", given.repeats)
    if given.out is not None:
        check_free(given.out)
    engine = EngineOptions(**{key: value for key, value in vars(given).items() if key == "device"})
    measured = measure(figures, engine, given.repeats)
    show(table(measured))
    if given.out is not None:
        write_json(given.out, record(measured))
