"""The demo: draw its image set, and train several methods on it."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aevlp.config.sweep import Outcome, Sweep, Trial
from aevlp.core.engine import make_accelerator
from aevlp.core.processes import EngineOptions
from aevlp.experiments.compare import run_sweep
from aevlp.experiments.demo.scenes import write_world

log = logging.getLogger("aevlp")


def run_demo(
    out: Path, methods: Sequence[str], seeds: int, engine: Mapping[str, Any]
) -> tuple[Sweep, list[tuple[Trial, Outcome]]]:
    """Train every method with seeds 0 to seeds - 1 below `out`; return the sweep and its outcomes.

    Finished runs of an earlier call are kept, unfinished ones are resumed.
    """
    sweep = Sweep("demo", methods, {"store": [str(out / "views")], **{key: [value] for key, value in engine.items()}})
    trials = sweep.trials(seeds)  # refuses a wrong name before the work begins
    ensure_world(out / "world", trials[0].config.engine)
    return sweep, run_sweep(sweep, trials, out / "world", out)


def ensure_world(folder: Path, engine: EngineOptions, **images: int) -> None:
    """Draw the demo's image set unless it is there; of several processes, the first draws and the others wait."""
    accelerator = make_accelerator(engine)
    if accelerator.is_main_process and not folder.is_dir():
        log.info("drawing the world: %s", folder)
        write_world(folder, **images)
    accelerator.wait_for_everyone()
