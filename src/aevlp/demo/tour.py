"""The tour of the demo: draw the world, train several methods on it, one table."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from aevlp.config import RunOptions
from aevlp.demo.scenes import write_world
from aevlp.methods import find_method
from aevlp.recipe import build_config, read_recipe, recipe_file
from aevlp.runs import RunFolder

log = logging.getLogger("aevlp")
FIGURES = ("precision", "recall", "accumulated_precision", "accumulated_recall")


def tour(out: Path, methods: Sequence[str], seeds: int, engine: Mapping[str, Any]) -> Table:
    """Trains every method with seeds 0..seeds-1 below `out` and returns the table of results.

    What an earlier call has finished is taken as it is; what it left unfinished goes on.
    """
    for method in methods:
        find_method(method)  # a wrong name is said before the work begins
    world = out / "world"
    if not world.is_dir():
        log.info("drawing the world: %s", world)
        write_world(world)
    values = read_recipe(recipe_file("demo"))

    from aevlp.engine import make_accelerator
    from aevlp.start import start_training

    results: dict[str, list[dict[str, Any]]] = {method: [] for method in methods}
    accelerator = None
    for seed in range(seeds):
        for method in methods:
            config = build_config("demo", method, {**values, **engine, "method": method})
            config = replace(config, run=RunOptions(seed=seed, store=str(out / "views")))
            accelerator = accelerator or make_accelerator(config.engine)
            run = RunFolder(out / f"{method}-{seed}")
            log.info("%s, seed %d: %s", method, seed, run.path)
            resume = run.config.is_file()
            results[method].append(start_training(config, world, run, resume=resume, accelerator=accelerator))
    return _table(results, out)


def _table(results: Mapping[str, Sequence[Mapping[str, Any]]], out: Path) -> Table:
    table = Table(title="demo world", caption=f"everything is in {out}: world/ (images), views/ (store), METHOD-SEED/ (runs)")
    table.add_column("method")
    for name in ("test mAP", "val mAP", "pseudo-labels: precision", "recall", "accumulated precision", "accumulated recall"):
        table.add_column(name, justify="right")
    for method, runs in results.items():
        cells = [_mean([run["mAP"] for run in runs]), _mean([run["val_mAP"] for run in runs])]
        for figure in FIGURES:
            known = [100 * run["pseudo_labels"][figure] for run in runs if run["pseudo_labels"][figure] is not None]
            cells.append(_mean(known))
        table.add_row(method, *cells)
    return table


def _mean(values: Sequence[float]) -> str:
    """Mean and, over several, standard deviation; '-' for none."""
    if not values:
        return "-"
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"
