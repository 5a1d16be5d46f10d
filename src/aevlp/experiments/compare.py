"""Run a sweep: its trainings one after another in this process, or several at a time in processes of their own."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from accelerate import Accelerator

from aevlp.config.sweep import Failure, Outcome, Sweep, Trial, csv_text, exact, is_results_csv
from aevlp.config.trackers import require_trackers
from aevlp.core.engine import gpu_count, make_accelerator
from aevlp.core.errors import UserError, one_line
from aevlp.core.files import write_text
from aevlp.core.processes import PARENT, environment_of_job, is_first_process
from aevlp.core.progress import duration
from aevlp.data.dataset import require_examples
from aevlp.data.load import load
from aevlp.reports.sweep_page import write_compare_report
from aevlp.store.location import store_root
from aevlp.training.provenance import require_same_images, require_same_origin
from aevlp.training.run_folder import RunFolder
from aevlp.training.setup import check_inputs, origin_of

log = logging.getLogger("aevlp")
GRACE = 10.0  # seconds that a training has to stop
RESULTS = "results.csv"
Finished = Generator[tuple[Trial, Outcome], None, None]


def run_sweep(sweep: Sweep, trials: Sequence[Trial], data: Path, out: Path, *, jobs: int = 1) -> list[tuple[Trial, Outcome]]:
    """Train a sweep and return each training with its outcome; `out` has the runs, `results.csv` and, if wanted, the report."""
    outcomes = train_all(trials, data, out, jobs=jobs, on_progress=lambda so_far: _write_csv(sweep, trials, so_far, out))
    if is_first_process() and wants_report(trials):
        write_compare_report(out, sweep, outcomes, data=data)
    return outcomes


def wants_report(trials: Sequence[Trial]) -> bool:
    """Return whether a sweep has a page: where a run has one."""
    return any(trial.config.run.report for trial in trials)


def train_all(
    trials: Sequence[Trial],
    data: Path,
    out: Path,
    *,
    jobs: int = 1,
    on_progress: Callable[[Mapping[str, Outcome]], None] = lambda so_far: None,
) -> list[tuple[Trial, Outcome]]:
    """Return each training with its outcome when all are done; their runs are in `out`, by the name of the training.

    Finished runs of an earlier call are kept, unfinished ones are resumed. A mistake that concerns all trainings is refused
    before anything is written; a training that fails alone does not stop the others. `on_progress` gets the outcomes so far
    by name, before the first training and after each.
    """
    finished = [(trial, result) for trial in trials if (result := _finished(trial, out)) is not None]
    outcomes: dict[str, Outcome] = {trial.name: result for trial, result in finished}
    waiting = [trial for trial in trials if trial.name not in outcomes]
    _check_engines(waiting, jobs)
    _check_data(waiting, finished, data, out)
    running = _running(waiting, data, out, jobs) if waiting else None
    for name in outcomes:
        log.info("%s: this run is finished", out / name)
    on_progress(outcomes)
    if running is not None:
        started = time.monotonic()
        with closing(running):
            for count, (trial, outcome) in enumerate(running, start=1):
                outcomes[trial.name] = outcome
                on_progress(outcomes)
                seconds = (time.monotonic() - started) / count * (len(waiting) - count)
                left = f"; about {duration(seconds)} left" if count < len(waiting) else ""
                log.info("%d of %d %s%s", len(outcomes), len(trials), _in_short(trial, outcome), left)
    return [(trial, outcomes[trial.name]) for trial in trials]


def check_sweep_folder(out: Path, trials: Sequence[Trial]) -> None:
    """Refuse a folder that holds something other than a sweep."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"--out {out}: exists and is not a folder; choose another place")
    if (out / RESULTS).exists():
        if not is_results_csv(out / RESULTS):
            raise UserError(f"--out {out}: {RESULTS} in it is not one of a sweep; choose another place")
        return
    roots = [store_root(trial.config.run.store) for trial in trials]
    stores = {root.resolve() for root in roots if root is not None}
    content = [path for path in out.iterdir() if path.suffix != ".part" and path.resolve() not in stores]
    if content and not any(out.glob("*/config.yaml")):
        raise UserError(f"--out {out}: exists and has no run of a sweep in it; choose another place")


def failure_of(error: Exception, name: str) -> Failure:
    """Return an error as a failure; log it with its traceback, under `name`, if it is a bug."""
    if isinstance(error, UserError):
        return Failure(" ".join(str(error).split()), is_user_error=True)
    log.error("%s", name, exc_info=error)
    return Failure(one_line(error), is_user_error=False)


def _check_engines(waiting: Sequence[Trial], jobs: int) -> None:
    """Refuse --jobs in a group of processes, and several devices, precisions or ways to compute in one process."""
    if jobs > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(f"--jobs {jobs}: processes that were started together train one run together; leave --jobs out")
    if jobs == 1 and len({trial.config.engine for trial in waiting}) > 1:
        raise UserError(
            "--device, --precision, --deterministic: one process computes with one value of each; give one, or use --jobs 2"
        )


def _finished(trial: Trial, out: Path) -> dict[str, Any] | None:
    """Return the result of a training that is done; refuse a folder of another configuration, or one that is no run."""
    run = RunFolder(out / trial.name)
    if not run.config.is_file():
        run.check_free(overwrite=False)
        return None
    run.check_resumable(trial.config)
    lacks_card = run.model.is_dir() and not run.card.is_file()
    lacks_report = run.evidence.is_file() and not run.report.is_file()
    return None if lacks_card or lacks_report else run.read_result()  # killed after its last figure: resumed, it writes them


def _check_data(waiting: Sequence[Trial], finished: Sequence[tuple[Trial, Mapping[str, Any]]], data: Path, out: Path) -> None:
    """Refuse trackers that are not there, an unfit image set, prompts or features of other images, results of another set."""
    for track in dict.fromkeys(trial.config.run.track for trial in waiting):
        require_trackers(track)
    for model in dict.fromkeys(trial.config.model for trial in waiting):
        model.require_features()
    for options, store in dict.fromkeys((trial.config.data, trial.config.run.store) for trial in waiting):
        dataset = load(data, options, store_root(store))
        configs = [trial.config for trial in waiting if (trial.config.data, trial.config.run.store) == (options, store)]
        asks_teacher = all(config.method.source.asks_teacher for config in configs)
        require_examples(dataset, options.classes_without_examples, asks_teacher=asks_teacher)
        fits = {(one.method.source.asks_teacher, one.teacher.prompts, one.model.features): one for one in configs}
        for config in fits.values():
            check_inputs(config, dataset)
        for trial, result in finished:
            if trial.config.data == options:
                require_same_images(out / trial.name, result, dataset)
    origin, models = cache(origin_of), {trial.config.model for trial in waiting}
    for trial, result in finished:
        if trial.config.model in models and result.get("origin") is not None:  # neither older versions nor teachers have one
            require_same_origin(out / trial.name, result, origin(trial.config.model))


def _running(waiting: Sequence[Trial], data: Path, out: Path, jobs: int) -> Finished:
    """Return the trainings as they will finish; refuse a missing device or precision before the first one starts."""
    engines = list(dict.fromkeys(trial.config.engine for trial in waiting))
    if jobs == 1:
        accelerator = make_accelerator(engines[0])
        accelerator.wait_for_everyone()  # no process starts before all have seen which runs are finished
        return _one_by_one(waiting, data, out, accelerator)
    gpus = 0 if all(engine.device == "cpu" for engine in engines) else gpu_count()
    if not gpus and len(engines) == 1:
        make_accelerator(engines[0])  # only to refuse a missing device or precision; on a GPU it would take up memory
    return _side_by_side(waiting, data, out, jobs, gpus)


def _one_by_one(waiting: Sequence[Trial], data: Path, out: Path, accelerator: Accelerator) -> Finished:
    """Train one after another, in this process or in the group that it belongs to."""
    from aevlp.experiments.train import train_run  # at the top, the chain of imports would be too long

    for trial in waiting:
        run = RunFolder(out / trial.name)
        log.info("started %s", trial.name)
        outcome: Outcome
        try:
            outcome = train_run(trial.config, data, run, resume=run.config.is_file(), accelerator=accelerator)
        except Exception as error:
            if accelerator.num_processes > 1:
                raise  # the other processes may wait for this one
            accelerator.free_memory()
            outcome = failure_of(error, trial.name)
        yield trial, outcome


def _side_by_side(waiting: Sequence[Trial], data: Path, out: Path, jobs: int, gpus: int) -> Finished:
    """Train `jobs` at a time, each by the command that a user would type."""
    workers = _Workers(data, out, min(jobs, len(waiting)), gpus)
    with _exiting_on_signals(), ThreadPoolExecutor(workers.count) as pool:
        futures = {pool.submit(workers.train, trial): trial for trial in waiting}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            workers.stop([future for future in futures if not future.cancelled()])


class _Workers:
    """The processes that train side by side, `count` at a time; `train` runs in a thread per process."""

    def __init__(self, data: Path, out: Path, count: int, gpus: int) -> None:
        self.data, self.out, self.count, self.gpus = data, out, count, gpus
        self.free_slots = deque(range(count))
        self.children: set[subprocess.Popen[bytes]] = set()
        self.is_stopped = False
        self.lock = Lock()  # no process starts once `stop` has begun

    def train(self, trial: Trial) -> Outcome:
        """Train in a process of its own and return the outcome."""
        run, slot = RunFolder(self.out / trial.name), self.free_slots.popleft()
        threads = max(1, (os.cpu_count() or 1) // self.count)
        with tempfile.TemporaryFile() as stderr:
            with self.lock:
                if self.is_stopped:
                    return Failure("not started", is_user_error=False)
                log.info("started %s", trial.name)
                child = subprocess.Popen(
                    _command(trial, self.data, run),
                    env={**environment_of_job(os.environ, slot, threads, self.gpus), PARENT: str(os.getpid())},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    start_new_session=True,  # a Ctrl-C reaches it through this process, once
                )
                self.children.add(child)
            code = child.wait()
            self.children.discard(child)
            self.free_slots.append(slot)
            if code < 0:
                run.remove_parts()  # a process that was killed may have been writing
            stderr.seek(0)
            return _outcome(run, code, stderr.read().decode(errors="replace"))

    def stop(self, futures: Sequence[Future[Outcome]]) -> None:
        """Send SIGINT to what still runs, so that it leaves nothing half-written; after a grace period, SIGKILL."""
        with self.lock:
            self.is_stopped = True
        for child in list(self.children):
            child.send_signal(signal.SIGINT)
        try:
            wait(futures, GRACE)
        finally:  # also when a second Ctrl-C ends the wait
            for child in list(self.children):
                child.kill()


def _command(trial: Trial, data: Path, run: RunFolder) -> list[str]:
    """Return the command that trains, or resumes, a trial."""
    words = [sys.executable, "-m", "aevlp", "train", str(data), "--out", str(run.path), "--recipe", trial.config.recipe]
    words += ["--method", trial.method, "--seed", str(trial.seed)]
    words += [f"--{key}={exact(value)}" for key, value in trial.options.items()]  # with =, a value may begin with a dash
    return [*words, "--resume"] if run.config.is_file() else words


def _outcome(run: RunFolder, code: int, stderr: str) -> Outcome:
    """Return the result of a training that ended with that exit code, or its last message."""
    result = run.read_result() if code == 0 else None
    if result is not None:
        return result
    lines = stderr.strip().splitlines() or [f"ended with code {code} and without a message"]
    if code == 2:
        line = next((line for line in reversed(lines) if line.startswith("aevlp: ")), lines[-1])
        return Failure(line.removeprefix("aevlp: "), is_user_error=True)
    if code < 0:
        return Failure(f"killed by signal {-code} ({signal.strsignal(-code)})", is_user_error=False)
    if "Traceback" in stderr:
        log.error("%s: %s", run.path, stderr[stderr.index("Traceback") :])
    return Failure(lines[-1], is_user_error=False)


@contextmanager
def _exiting_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit within the context, so that cleaning up ends the child processes."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    numbers = [signal.SIGTERM, signal.SIGHUP]
    before = {number: signal.signal(number, leave) for number in numbers if signal.getsignal(number) == signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_csv(sweep: Sweep, trials: Sequence[Trial], outcomes: Mapping[str, Outcome], out: Path) -> None:
    """Replace `results.csv` by one of all results so far."""
    if is_first_process():
        known = [(trial, outcomes[trial.name]) for trial in trials if trial.name in outcomes]
        results = [(trial, outcome) for trial, outcome in known if not isinstance(outcome, Failure)]
        write_text(out / RESULTS, csv_text(sweep, results, out))


def _in_short(trial: Trial, outcome: Outcome) -> str:
    """Return a finished training in a few words."""
    if isinstance(outcome, Failure):
        return f"failed: {trial.name}: {outcome.line}"
    split, value = ("val", outcome["val_mAP"]) if outcome["mAP"] is None else ("test", outcome["mAP"])
    warned = "".join(f"; warning: {text}" for text in outcome.get("warnings") or ())
    return f"done: {trial.name}, {split} mAP {value:.2f}{warned}"
