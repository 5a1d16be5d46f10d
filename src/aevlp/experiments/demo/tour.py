"""The tour of the demo: draw the world, train several methods on it, one table."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aevlp.config.sweep import Outcome, Sweep, Trial
from aevlp.experiments.compare import compare
from aevlp.experiments.demo.scenes import write_world

log = logging.getLogger("aevlp")


def tour(out: Path, methods: Sequence[str], seeds: int, engine: Mapping[str, Any]) -> tuple[Sweep, list[tuple[Trial, Outcome]]]:
    """Trains every method with seeds 0..seeds-1 below `out` and returns the sweep and its outcomes.

    What an earlier call has finished is taken as it is; what it left unfinished goes on.
    """
    sweep = Sweep("demo", methods, {"store": [str(out / "views")], **{key: [value] for key, value in engine.items()}})
    trials = sweep.trials(seeds)  # a wrong name is said before the work begins
    world = out / "world"

    from aevlp.core.engine import make_accelerator

    accelerator = make_accelerator(trials[0].config.engine)
    if accelerator.is_main_process and not world.is_dir():
        log.info("drawing the world: %s", world)
        write_world(world)
    accelerator.wait_for_everyone()
    return sweep, compare(sweep, trials, world, out)
