"""From options to a finished run: everything that can be refused is refused before the run folder is made."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.config.config import Config
from aevlp.core.engine import is_first_process
from aevlp.store.location import store_root
from aevlp.training.run_folder import RunFolder, log_to

if TYPE_CHECKING:
    from accelerate import Accelerator

    from aevlp.data.splits import Dataset

log = logging.getLogger("aevlp")


def start_training(
    config: Config,
    data_path: Path,
    run: RunFolder,
    *,
    resume: bool = False,
    overwrite: bool = False,
    accelerator: Accelerator | None = None,
) -> dict[str, Any]:
    """Trains into a run folder, or goes on there, and returns the result."""
    if resume:
        run.check_resumable(config)
        if (done := run.read_result()) is not None:
            log.info("%s: this run is finished", run.path)
            if is_first_process():
                from aevlp.training.conclusion import present_missing

                present_missing(run)  # it may have been killed after its last figure
            return done
    else:
        run.check_free(overwrite=overwrite)

    from aevlp.data.load import load
    from aevlp.data.splits import require_examples

    root = store_root(config.run.store)
    data = load(data_path, config.data, root)
    require_examples(data)

    from aevlp.core.engine import make_accelerator

    return train_on(data, config, run, accelerator or make_accelerator(config.engine), resume=resume)


def train_on(data: Dataset, config: Config, run: RunFolder, accelerator: Accelerator, *, resume: bool) -> dict[str, Any]:
    """Trains on data that is at hand into a run folder that is free or may be resumed, and returns the result."""
    from aevlp.training.loop import gather_parts, train

    root = store_root(config.run.store)
    parts = gather_parts(config, data, root, accelerator)
    accelerator.wait_for_everyone()  # until all have seen that the folder is free
    claim = run.claim() if accelerator.is_main_process else None
    try:
        if accelerator.is_main_process:
            if resume:
                run.remove_parts()
            else:
                run.create(config, shlex.join(["aevlp", *sys.argv[1:]]))
        accelerator.wait_for_everyone()
        with log_to(run.path / "log.txt"):
            return train(config, data, parts, run, accelerator, root)
    finally:
        accelerator.free_memory()  # it would keep this model and optimiser alive for the next run in this process
        if claim is not None:
            claim.release()
