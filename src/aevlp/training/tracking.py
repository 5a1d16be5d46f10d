"""The trackers of a run: those of `accelerate`, fed with its options, the lines of `metrics.jsonl`, its result and its files."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, GeneralTracker

from aevlp.config.config import Config
from aevlp.config.trackers import be_quiet, tracker_names
from aevlp.core.debug_log import to_debug_log
from aevlp.core.errors import UserError, one_line
from aevlp.core.files import json_object, write_json
from aevlp.core.json_types import from_json
from aevlp.training.run_folder import RunFolder, flat_options

log = logging.getLogger("aevlp")
PROJECT = "aevlp"
RUN_IDS: dict[str, Callable[[Any], str]] = {
    "mlflow": lambda tracker: str(tracker.tracker.info.run_id),
    "wandb": lambda tracker: str(tracker.tracker.id),
}
"""Trackers whose runs can be continued -> the id of the run that a tracker writes."""


@dataclass
class RunTrackers:
    """The trackers of a run. One that fails is left out from then on, with a warning: it never ends a training."""

    folder: RunFolder
    started: dict[str, GeneralTracker] = field(default_factory=dict)

    def start(self, names: list[str], options: Mapping[str, Any], *, resume: bool) -> None:
        """Start the trackers and give them the run's options, or continue their runs, whose ids the run folder keeps."""
        be_quiet()
        before = kept_ids(self.folder) if resume else {}
        ids = dict(before)
        for name in names:
            with self._surviving(name):
                tracker = make_tracker(name, self.folder, before.get(name))
                tracker.start()
                self.started[name] = tracker
                if name in RUN_IDS:
                    ids[name] = RUN_IDS[name](tracker)
                if not resume or (name in RUN_IDS and name not in before):
                    tracker.store_init_configuration(dict(options))
        if ids != before:
            write_json(self.folder.trackers, ids)

    def log_epoch(self, record: Mapping[str, Any]) -> None:
        """Write a line of `metrics.jsonl`."""
        quality = {f"pseudo_labels/{name}": value for name, value in (record["pseudo_labels"] or {}).items()}
        figures = {name: value for name, value in {**record, **quality}.items() if isinstance(value, float)}
        self._each(lambda _, tracker: tracker.log(figures, step=record["epoch"]))

    def log_result(self, result: Mapping[str, Any]) -> None:
        """Write the figures of a finished run."""
        figures = final_figures(result)
        self._each(lambda _, tracker: tracker.log(figures, step=result["epochs"]))

    def log_files(self) -> None:
        """Give the model folder and the report to the trackers that keep files."""
        model, report = self.folder.model, self.folder.report

        def add(name: str, tracker: Any) -> None:
            if name == "mlflow":
                if model.is_dir():
                    tracker.log_artifacts(str(model), "model")
                if report.is_file():
                    tracker.log_artifact(str(report))
            elif name == "wandb":
                run = tracker.tracker
                if model.is_dir():
                    run.log_artifact(str(model), name=f"model-{run.id}", type="model")
                if report.is_file():
                    run.log_artifact(str(report), name=f"report-{run.id}", type="report")

        self._each(add)

    def finish(self, *, failed: bool) -> None:
        """End the trackers' runs, as failed ones where a tracker knows the difference."""

        def end(name: str, tracker: Any) -> None:
            if failed and name == "mlflow":
                import_module("mlflow").end_run("FAILED")
            elif failed and name == "wandb":
                tracker.tracker.finish(exit_code=1)
            else:
                tracker.finish()

        self._each(end)

    def _each(self, act: Callable[[str, GeneralTracker], None]) -> None:
        for name, tracker in list(self.started.items()):
            with self._surviving(name):
                act(name, tracker)

    @contextmanager
    def _surviving(self, name: str) -> Iterator[None]:
        """Turn any error of a tracker into a warning and leave it out from then on; its messages go to the debug log."""
        try:
            with to_debug_log("accelerate", "alembic", "mlflow", "wandb"):
                yield
        except Exception as error:  # each library has its own errors
            log.warning("warning: --track %s: nothing more is written there (%s); the training goes on", name, one_line(error))
            if (tracker := self.started.pop(name, None)) is not None:
                with suppress(Exception):
                    tracker.finish()


@contextmanager
def track_run(config: Config, folder: RunFolder, accelerator: Accelerator, *, resume: bool) -> Iterator[RunTrackers]:
    """Yield the trackers of a run, which end with the block; of several processes, only the first one has any."""
    trackers = RunTrackers(folder)
    if not accelerator.is_main_process:
        yield trackers
        return
    with _quiet_threads():
        options = {"run": str(folder.path.resolve()), **flat_options(config.as_recipe())}
        trackers.start(tracker_names(config.run.track), options, resume=resume)
        try:
            yield trackers
        except BaseException:
            trackers.finish(failed=True)
            raise
        trackers.finish(failed=False)


def make_tracker(name: str, folder: RunFolder, run_id: str | None) -> GeneralTracker:
    """Return a tracker of `accelerate`, not started. It continues the run `run_id`; None: it begins one, named as the folder."""
    kind, run_name = LOGGER_TYPE_TO_CLASS[name], folder.path.resolve().name
    if name == "tensorboard":
        return kind(name, folder.path)  # the files are in RUN/tensorboard
    if name == "mlflow":
        return kind(PROJECT, run_id=run_id, run_name=run_name, nested_run=True)  # a run of the user's own may be active
    if name == "wandb":
        place, project = os.environ.get("WANDB_DIR", folder.path), os.environ.get("WANDB_PROJECT", PROJECT)
        return kind(project, name=run_name, id=run_id, resume=None if run_id is None else "allow", dir=place)
    return kind(PROJECT, folder.path) if kind.requires_logging_directory else kind(PROJECT)


def kept_ids(folder: RunFolder) -> dict[str, str]:
    """Return tracker -> id of the run that it has begun; none if the run folder keeps none."""
    if not folder.trackers.is_file():
        return {}
    try:
        found: dict[str, str] = from_json(json_object(folder.trackers), dict[str, str])
    except ValueError as error:
        raise UserError(f"{folder.trackers}: {error}; remove it, and the trackers begin new runs") from None
    return found


def final_figures(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the known figures of `result.json` by the split that they are of: mAP and F1 in percent."""
    figures = {
        "best/epoch": result["best_epoch"],
        "best/val_mAP": result["val_mAP"],
        "best/val_mAP_present": result["val_mAP_present"],
        "test/mAP": result["mAP"],
        "test/mAP_present": result["mAP_present"],
        **{f"test/{name}": value for name, value in (result["labels"] or {}).items()},
        **{f"best/val_{name}": value for name, value in result["labels_on_val"].items()},
        **{f"baselines/{name}": value for name, value in (result["baselines"] or {}).items()},
    }
    return {
        name: float(value) for name, value in figures.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }


@contextmanager
def _quiet_threads() -> Iterator[None]:
    """Within it, a thread that cannot write a file prints no traceback: TensorBoard writes in a thread and raises it again."""
    before = threading.excepthook

    def report(args: threading.ExceptHookArgs) -> None:
        if isinstance(args.exc_value, OSError):
            log.debug("TensorBoard: %s", args.exc_value)
        else:
            before(args)

    threading.excepthook = report
    try:
        yield
    finally:
        threading.excepthook = before
