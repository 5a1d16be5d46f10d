"""From a configuration and an image set to a trained run folder."""

import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accelerate import Accelerator

from aevlp.config.config import Config
from aevlp.data.dataset import Dataset
from aevlp.store.location import store_root
from aevlp.training.estimate import describe, training_work
from aevlp.training.inputs import InputFactory
from aevlp.training.loop import train
from aevlp.training.run_folder import RunFolder, log_to
from aevlp.training.setup import TrainingSetup, prepare
from aevlp.training.state import TrainState

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class TrainedRun:
    """A training after its last epoch; its folder holds the best epoch's model."""

    setup: TrainingSetup
    state: TrainState
    folder: RunFolder
    inputs: InputFactory  # the kind of input that the classifier takes


@contextmanager
def run(
    config: Config, data: Dataset, folder: RunFolder, accelerator: Accelerator, *, resume: bool = False
) -> Iterator[TrainedRun]:
    """Train into a run folder that is free or may be resumed, and yield the trained run.

    Until the block ends, the folder belongs to this process and everything that is logged goes to its `log.txt` too.
    """
    setup = prepare(config, data, store_root(config.run.store), accelerator)
    accelerator.wait_for_everyone()  # until all have seen that the folder is free
    claim = folder.claim() if accelerator.is_main_process else None
    try:
        if accelerator.is_main_process:
            if resume:
                folder.remove_parts()
            else:
                folder.create(config, shlex.join(["aevlp", *sys.argv[1:]]))
        accelerator.wait_for_everyone()
        with log_to(folder.path / "log.txt"):
            for line in [] if resume else describe(data, training_work(setup), setup.store_root):
                log.info("%s", line)
            state, inputs = train(setup, folder)
            yield TrainedRun(setup, state, folder, inputs)
    finally:
        accelerator.free_memory()  # it would keep this model and optimizer alive for the next run in this process
        if claim is not None:
            claim.release()
