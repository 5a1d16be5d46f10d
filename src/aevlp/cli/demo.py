"""aevlp demo: the embedded world."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from aevlp.cli.compare import print_outcomes
from aevlp.core.options import AtLeast, Parser, options_of
from aevlp.core.processes import EngineOptions
from aevlp.core.remote import local_path

METHODS = "zero-shot,zero-shot-views,an,gr,aevlp,full"


@dataclass(frozen=True)
class DemoOptions(EngineOptions):
    """Options of the demo's trainings."""

    seeds: Annotated[int, AtLeast(1)] = 1
    """Trainings per method, with seeds 0 to N-1."""


def demo(argv: Sequence[str]) -> None:
    """Draw a small world, train several methods on it and print one table; nothing is downloaded."""
    parser = Parser("demo", demo.__doc__ or "", "aevlp demo --out demo-run")
    add = parser.add_argument
    add("--out", type=local_path, default=Path("demo-run"), metavar="DIR", help="folder for everything (default: demo-run)")
    add("--methods", default=METHODS, metavar="A,B,..", help=f"methods to train (default: {METHODS})")
    for option in options_of("", DemoOptions):
        parser.add_option(option)
    given = parser.read(argv)
    chosen = {key: value for key, value in vars(given).items() if key not in ("out", "methods")}
    seeds = DemoOptions(**chosen).seeds
    chosen.pop("seeds", None)

    from aevlp.experiments.demo.run import run_demo

    sweep, outcomes = run_demo(given.out, given.methods.split(","), seeds, chosen)
    caption = f"everything is in {given.out}: report.html, world/ (images), views/ (store), METHOD-SEED/ (runs)"
    print_outcomes(sweep, outcomes, given.out, title="demo world", caption=caption)
