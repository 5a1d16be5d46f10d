"""One training, from the path of an image set to a finished run folder with its report. Loads without torch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from aevlp.config.config import Config
from aevlp.config.trackers import require_trackers
from aevlp.core.processes import is_first_process
from aevlp.data.dataset import data_fingerprint, names_content, require_examples
from aevlp.data.load import load
from aevlp.store.location import store_root
from aevlp.training.run_folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator

log = logging.getLogger("aevlp")


def estimate_run(config: Config, data_path: Path) -> list[str]:
    """Return an estimate of a training's work, in lines; nothing is written but the embeddings of a sample, into the store."""
    require_trackers(config.run.track)
    root = store_root(config.run.store)
    config.model.require_features()
    data = load(data_path, config.data, root)
    require_examples(data, config.data.classes_without_examples, asks_teacher=config.method.source.asks_teacher)

    from aevlp.core.engine import make_accelerator
    from aevlp.training.estimate import describe, describe_missing, missing_models, run_work
    from aevlp.training.setup import prepare_run

    if models := missing_models(config):
        return [*describe(data, [], root)[:1], describe_missing(models)]
    return describe(data, run_work(prepare_run(config, data, root, make_accelerator(config.engine))), root)


def train_run(
    config: Config,
    data_path: Path,
    folder: RunFolder,
    *,
    resume: bool | Literal["auto"] = False,
    overwrite: bool = False,
    accelerator: Accelerator | None = None,
) -> dict[str, Any]:
    """Train into a run folder, or continue there, and return the content of `result.json`.

    With `resume` "auto", a run that is there is continued, if it was started with this configuration, and else one is started.
    """
    if resume == "auto":
        resume = folder.config.is_file()
    done = None
    if resume:
        folder.check_resumable(config)
        done = folder.read_whole_result()
    else:
        folder.check_free(overwrite=overwrite)
    if done is None:
        require_trackers(config.run.track)
        config.model.require_features()  # before all images are read
    data = load(data_path, config.data, store_root(config.run.store))
    if done is None:
        require_examples(data, config.data.classes_without_examples, asks_teacher=config.method.source.asks_teacher)
    elif names_content(done.get("fingerprint")):
        folder.require_same_data(done["fingerprint"], data_fingerprint(data))

    # This loads torch, which takes seconds; whatever is refused above is refused at once.
    from aevlp.experiments.finalize import train_and_finalize, write_missing_pages

    if done is None:
        return train_and_finalize(config, data, folder, accelerator, resume=resume)
    log.info("%s: this run is finished", folder.path)
    if is_first_process():
        write_missing_pages(folder)  # it may have been killed after its last figure
    return done
