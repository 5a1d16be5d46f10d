"""From a configuration and an image set to a run folder: trained, or with the scores of a teacher alone."""

import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accelerate import Accelerator

from aevlp.config.config import Config
from aevlp.data.dataset import Dataset
from aevlp.models.model_folder import load_classifier
from aevlp.sources.damp import Damp
from aevlp.store.location import store_root
from aevlp.training.estimate import describe, run_work
from aevlp.training.evaluate import Predict, by_classifier, by_teacher
from aevlp.training.loop import train
from aevlp.training.run_folder import RunFolder, log_to
from aevlp.training.setup import RunSetup, TrainingSetup, prepare_run
from aevlp.training.state import TrainState
from aevlp.training.tracking import RunTrackers, track_run

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class TrainedRun:
    """A training after its last epoch, whose folder holds the best epoch's model, or a run that needs no training."""

    setup: RunSetup
    state: TrainState | None  # None: nothing was trained
    folder: RunFolder
    predict: Predict  # by the best epoch's model, or by the teacher
    trackers: RunTrackers


@contextmanager
def run(
    config: Config, data: Dataset, folder: RunFolder, accelerator: Accelerator, *, resume: bool = False
) -> Iterator[TrainedRun]:
    """Train into a run folder that is free or may be resumed, and yield the trained run.

    Until the block ends, the folder belongs to this process and everything that is logged goes to its `log.txt` too.
    """
    setup = prepare_run(config, data, store_root(config.run.store), accelerator)
    accelerator.wait_for_everyone()  # until all have seen that the folder is free
    claim = folder.claim() if accelerator.is_main_process else None
    try:
        if accelerator.is_main_process:
            if resume:
                folder.remove_parts()
            else:
                folder.create(config, shlex.join(["aevlp", *sys.argv[1:]]))
        accelerator.wait_for_everyone()
        with log_to(folder.path / "log.txt"), track_run(config, folder, accelerator, resume=resume) as trackers:
            for line in [] if resume else describe(data, run_work(setup), setup.store_root):
                log.info("%s", line)
            if isinstance(setup, TrainingSetup):
                yield _train(setup, folder, trackers)
            else:
                yield _ask_teacher(setup, folder, trackers)
    finally:
        accelerator.free_memory()  # it would keep this model and optimizer alive for the next run in this process
        if claim is not None:
            claim.release()


def _train(setup: TrainingSetup, folder: RunFolder, trackers: RunTrackers) -> TrainedRun:
    state, inputs = train(setup, folder, trackers.log_epoch)
    best = load_classifier(folder.model).to(setup.accelerator.device)
    return TrainedRun(setup, state, folder, by_classifier(best, inputs, setup.accelerator, folder.model), trackers)


def _ask_teacher(setup: RunSetup, folder: RunFolder, trackers: RunTrackers) -> TrainedRun:
    source = setup.source
    assert isinstance(source, Damp)
    source.check_teacher()
    if source.options.tune:
        source.fill()
    if setup.accelerator.is_main_process:
        folder.write_metrics([])
    return TrainedRun(setup, None, folder, by_teacher(source, whole_image=setup.config.method.whole_image), trackers)
