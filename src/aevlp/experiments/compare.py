"""Running a sweep: one training after another in this process, or several at a time in processes of their own."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from io import BufferedRandom
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.config.sweep import Failure, Outcome, Sweep, Trial, csv_text, exact, is_results_csv
from aevlp.core.engine import gpu_count
from aevlp.core.errors import UserError, one_line
from aevlp.core.files import write_text
from aevlp.core.processes import environment_of_job, is_first_process
from aevlp.core.progress import duration
from aevlp.store.location import store_root
from aevlp.training.run_folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator

log = logging.getLogger("aevlp")
LOOK_EVERY = 0.2  # seconds
GRACE = 10.0  # seconds that a training has to stop
RESULTS = "results.csv"
Finished = Generator[tuple[Trial, Outcome], None, None]


def compare(sweep: Sweep, trials: Sequence[Trial], data: Path, out: Path, *, jobs: int = 1) -> list[tuple[Trial, Outcome]]:
    """Each training with its outcome, when all are done; their runs and `results.csv` are in `out`."""
    for part in out.glob(f".{RESULTS}.*.part") if is_first_process() else ():
        part.unlink()  # what a killed sweep left half-written
    return train_all(trials, data, out, jobs=jobs, keep=lambda outcomes: _write_csv(sweep, trials, outcomes, out))


def train_all(
    trials: Sequence[Trial], data: Path, out: Path, *, jobs: int = 1, keep: Callable[[Mapping[str, Outcome]], None] | None = None
) -> list[tuple[Trial, Outcome]]:
    """Each training with its outcome, when all are done; their runs are in `out`, by the name of the training.

    What an earlier call has finished is taken as it is; what it left unfinished goes on. What is wrong for all of them is
    refused before anything is written; a training that fails alone does not stop the others. `keep` is told the outcomes so
    far by name, before the first training and after each.
    """
    finished = [(trial, done) for trial in trials if (done := _finished(trial, out)) is not None]
    outcomes: dict[str, Outcome] = {trial.name: done for trial, done in finished}
    waiting = [trial for trial in trials if trial.name not in outcomes]
    _check_engines(waiting, jobs)
    _check_data(waiting, finished, data, out)
    running = _running(waiting, data, out, jobs) if waiting else None
    for name in outcomes:
        log.info("%s: this run is finished", out / name)
    if keep is not None:
        keep(outcomes)
    if running is not None:
        started, before = time.monotonic(), len(outcomes)
        with closing(running):
            for trial, outcome in running:
                outcomes[trial.name] = outcome
                if keep is not None:
                    keep(outcomes)
                seconds = (time.monotonic() - started) / (len(outcomes) - before) * (len(trials) - len(outcomes))
                left = f"; about {duration(seconds)} left" if len(outcomes) < len(trials) else ""
                log.info("%d of %d %s%s", len(outcomes), len(trials), _in_short(trial, outcome), left)
    return [(trial, outcomes[trial.name]) for trial in trials]


def stop_for_failures(outcomes: Iterable[tuple[str, object]], what: str) -> None:
    """Ends the command where something (name, outcome) failed: as the user's to put right, or as a bug."""
    known = list(outcomes)
    failed = {name: outcome for name, outcome in known if isinstance(outcome, Failure)}
    if not failed:
        return
    message = f"{len(failed)} of {len(known)} {what} failed ({', '.join(failed)}); the same command again goes on with them"
    if all(failure.is_user_error for failure in failed.values()):
        raise UserError(message)
    log.error("%s", message)
    sys.exit(1)


def check_place(out: Path, trials: Sequence[Trial]) -> None:
    """Refuses a folder that holds something else than a sweep."""
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


def _check_engines(waiting: Sequence[Trial], jobs: int) -> None:
    """Refuses what one process, or several that work together, cannot do."""
    if jobs > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError(f"--jobs {jobs}: processes that were started together train one run together; leave --jobs out")
    if jobs == 1 and len({trial.config.engine for trial in waiting}) > 1:
        raise UserError("--device, --precision: one process computes with one value of each; give one, or use --jobs 2")


def _finished(trial: Trial, out: Path) -> dict[str, Any] | None:
    """The result of a training that is done; a folder that was started otherwise, or is no run, is refused."""
    run = RunFolder(out / trial.name)
    if not run.config.is_file():
        run.check_free(overwrite=False)
        return None
    run.check_resumable(trial.config)
    return run.read_result()


def _running(waiting: Sequence[Trial], data: Path, out: Path, jobs: int) -> Finished:
    """The trainings as they finish; a device or a precision that is not there is refused here, before the first."""
    from aevlp.core.engine import make_accelerator

    engines = list(dict.fromkeys(trial.config.engine for trial in waiting))
    if jobs == 1:
        accelerator = make_accelerator(engines[0])
        accelerator.wait_for_everyone()  # until all have seen what is there
        return _in_turn(waiting, data, out, accelerator)
    gpus = 0 if all(engine.device == "cpu" for engine in engines) else gpu_count()
    if not gpus and len(engines) == 1:
        make_accelerator(engines[0])  # refuses a device or a precision that is not there; with a GPU it would take room on it
    return _side_by_side(waiting, data, out, jobs, gpus)


def _check_data(waiting: Sequence[Trial], finished: Sequence[tuple[Trial, Mapping[str, Any]]], data: Path, out: Path) -> None:
    """Refuses a set that cannot be trained on, prompts or features not made for it, and finished results of another one."""
    from aevlp.data.dataset import require_examples
    from aevlp.data.load import load
    from aevlp.training.provenance import require_same_images, require_same_origin
    from aevlp.training.setup import check_inputs, origin_of

    for options, store in dict.fromkeys((trial.config.data, trial.config.run.store) for trial in waiting):
        dataset = load(data, options, store_root(store))
        require_examples(dataset)
        configs = [trial.config for trial in waiting if (trial.config.data, trial.config.run.store) == (options, store)]
        fits = {(one.method.source.asks_teacher, one.teacher.prompts, one.model.features): one for one in configs}
        for config in fits.values():
            check_inputs(config, dataset)
        for trial, result in finished:
            if trial.config.data == options:
                require_same_images(out / trial.name, result, dataset)
    origin, models = cache(origin_of), {trial.config.model for trial in waiting}
    for trial, result in finished:
        if trial.config.model in models and "origin" in result:  # older versions did not say it
            require_same_origin(out / trial.name, result, origin(trial.config.model))


def _in_turn(waiting: Sequence[Trial], data: Path, out: Path, accelerator: Accelerator) -> Finished:
    """Trains one after another in this process, or in those that work together."""
    from aevlp.experiments.train import train_run

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


def failure_of(error: Exception, name: str) -> Failure:
    """What has gone wrong with what is called `name`; a bug is logged with its traceback."""
    if isinstance(error, UserError):
        return Failure(" ".join(str(error).split()), is_user_error=True)
    log.error("%s", name, exc_info=error)
    return Failure(one_line(error), is_user_error=False)


def _side_by_side(waiting: Sequence[Trial], data: Path, out: Path, jobs: int, gpus: int) -> Finished:
    """Trains `jobs` at a time, each by the command that a user would type."""
    queue, free = list(waiting), list(range(min(jobs, len(waiting))))
    threads = max(1, (os.cpu_count() or 1) // len(free))
    children: dict[subprocess.Popen[bytes], tuple[Trial, BufferedRandom, int]] = {}
    with _stopping_on_signals(), ExitStack() as files:
        try:
            while queue or children:
                while queue and free:
                    trial, slot = queue.pop(0), free.pop(0)
                    log.info("started %s", trial.name)
                    said = files.enter_context(tempfile.TemporaryFile())
                    child = subprocess.Popen(
                        _command(trial, data, out),
                        env=environment_of_job(os.environ, slot, threads, gpus),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=said,
                        start_new_session=True,  # a Ctrl-C reaches them through us, once
                    )
                    children[child] = trial, said, slot
                done = [child for child in children if child.poll() is not None]
                for child in done:
                    trial, said, slot = children.pop(child)
                    free.append(slot)
                    with said:
                        said.seek(0)
                        text = said.read().decode(errors="replace")
                    yield trial, _outcome(RunFolder(out / trial.name), child.returncode, text)
                if not done:
                    time.sleep(LOOK_EVERY)
        finally:
            _stop(list(children))
            for trial, *_ in children.values():  # one that had to be killed may have been writing
                RunFolder(out / trial.name).remove_parts()


def _command(trial: Trial, data: Path, out: Path) -> list[str]:
    """The words that train it, or go on with it."""
    run = RunFolder(out / trial.name)
    words = [sys.executable, "-m", "aevlp", "train", str(data), "--out", str(run.path), "--recipe", trial.config.recipe]
    words += ["--method", trial.method, "--seed", str(trial.seed)]
    words += [f"--{key}={exact(value)}" for key, value in trial.said.items()]  # with =, a value may begin with a dash
    return [*words, "--resume"] if run.config.is_file() else words


def _outcome(run: RunFolder, code: int, said: str) -> Outcome:
    """The result of a training that ended with that code, or what it said last."""
    result = run.read_result() if code == 0 else None
    if result is not None:
        return result
    lines = said.strip().splitlines() or [f"ended with code {code} and said nothing"]
    if code == 2:
        return Failure(
            next((line for line in reversed(lines) if line.startswith("aevlp: ")), lines[-1]).removeprefix("aevlp: "), True
        )
    if code < 0:
        return Failure(f"killed by signal {-code} ({signal.strsignal(-code)})", False)
    if "Traceback" in said:
        log.error("%s: %s", run.path, said[said.index("Traceback") :])
    return Failure(lines[-1], False)


@contextmanager
def _stopping_on_signals() -> Iterator[None]:
    """While it lasts, a signal that would end this process at once ends it in order, so that its children end too."""

    def leave(number: int, _: object) -> None:
        sys.exit(128 + number)

    names = [signal.SIGTERM, signal.SIGHUP]
    before = {number: signal.signal(number, leave) for number in names if signal.getsignal(number) == signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends processes: asks them, and after a while does not ask."""
    for child in children:
        child.send_signal(signal.SIGINT)
    deadline = time.monotonic() + GRACE
    try:
        for child in children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(0, deadline - time.monotonic()))
    finally:  # also when the user does not want to wait that long
        for child in children:
            child.kill()
            child.wait()


def _write_csv(sweep: Sweep, trials: Sequence[Trial], outcomes: Mapping[str, Outcome], out: Path) -> None:
    """Replaces the CSV by one of all that is done."""
    if is_first_process():
        known = [(trial, outcomes[trial.name]) for trial in trials if trial.name in outcomes]
        results = [(trial, outcome) for trial, outcome in known if not isinstance(outcome, Failure)]
        write_text(out / RESULTS, csv_text(sweep, results, out))


def _in_short(trial: Trial, outcome: Outcome) -> str:
    """A finished training in a few words."""
    if isinstance(outcome, Failure):
        return f"failed: {trial.name}: {outcome.line}"
    split, figure = ("val", outcome["val_mAP"]) if outcome["mAP"] is None else ("test", outcome["mAP"])
    return f"done: {trial.name}, {split} mAP {figure:.2f}"
