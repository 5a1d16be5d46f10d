"""The command line: one function per command.

Heavy libraries are loaded by the command that needs them, after its arguments are read: help and errors come at once.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aevlp.arguments import configured, swept
from aevlp.cache import store_root
from aevlp.catalogue import method_table, page
from aevlp.compare import check_place
from aevlp.compare import compare as run_sweep
from aevlp.config import DataOptions, EngineOptions
from aevlp.engine import is_first_process
from aevlp.errors import UserError, require
from aevlp.methods import METHODS, find_method
from aevlp.nearest import did_you_mean
from aevlp.options import Parser, options_of
from aevlp.recipe import build_config, read_recipe, recipe_file
from aevlp.runs import RunFolder
from aevlp.sources import Task
from aevlp.sweep import Failure, Outcome, Sweep, Trial, results_table

log = logging.getLogger("aevlp")
WAIT = 10.0  # seconds


def check(argv: Sequence[str]) -> None:
    """Say what was understood of an image set, and what is wrong with it."""
    parser = Parser("check", check.__doc__ or "")
    parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
    data_options = [option for option in options_of("data", DataOptions) if option.key != "data.bad_images"]
    for option in data_options:
        parser.add_option(option)
    given = vars(parser.read(argv))

    from aevlp.data import read
    from aevlp.data.check import check as examine
    from aevlp.data.check import render
    from aevlp.progress import progress

    path, values = given["data"], {o.key.removeprefix("data."): given.get(o.key, o.default) for o in data_options}
    with progress("reading every image", len(read(path, values["format"]).names)) as advance:
        report = examine(path, **values, progress=lambda _: advance(1))
    _print(render(report))
    if report.problems:
        raise UserError(f"{path}: {'; '.join(report.problems)}")


def score(argv: Sequence[str]) -> None:
    """Let the teacher look at the training images and keep what it sees (train does it by itself when needed)."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=Path, metavar="DATA", help="the image set")

    given, config = configured("score", score.__doc__ or "", argv, add)
    if not config.method.source.asks_teacher:
        raise UserError(f"--method {config.method.name}: asks no teacher, so there is nothing to score")
    if config.run.store == "none":
        raise UserError("--store none: there is nothing to fill; name a folder")

    from aevlp.data.load import load

    root = store_root(config.run.store)
    data = load(given.data, config.data, root)

    from aevlp.engine import make_accelerator

    task = Task(data.train, data.classes, config, root, make_accelerator(config.engine))
    config.method.source.make(task, config.source).fill()


def train(argv: Sequence[str]) -> None:
    """Train a classifier that finds all labels from images of which only some are known."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
        parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder for the run")
        parser.add_argument("--resume", action="store_true", help="go on where the run in --out stopped (default: false)")
        parser.add_argument("--overwrite", action="store_true", help="replace the run in --out (default: false)")

    given, config = configured("train", train.__doc__ or "", argv, add)
    if given.resume and given.overwrite:
        raise UserError("--resume and --overwrite exclude each other: leave one out")

    from aevlp.start import start_training

    result = start_training(config, given.data, RunFolder(given.out), resume=given.resume, overwrite=given.overwrite)
    _print(_summary(result, given.out))


def compare(argv: Sequence[str]) -> None:
    """Train several methods, seeds and values of options (--KEY A,B,..) on one store, and print one table."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
        parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the runs and results.csv")
        parser.add_argument("--seeds", type=int, default=1, metavar="N", help="train each with seeds 0..N-1 (default: 1)")
        parser.add_argument("--jobs", type=int, default=1, metavar="N", help="trainings at a time (default: 1)")

    given, sweep = swept("compare", compare.__doc__ or "", argv, add)
    require(given.seeds >= 1, "seeds", "at least 1", given.seeds)
    require(given.jobs >= 1, "jobs", "at least 1", given.jobs)
    trials = sweep.trials(given.seeds)
    check_place(given.out, trials)
    outcomes = run_sweep(sweep, trials, given.data, given.out, jobs=given.jobs)
    _conclude(sweep, outcomes, title=str(given.data), caption=f"every run: {given.out / 'results.csv'}")


AS_IN_THE_RUN = ("data.observe", "data.zeros")
"""What `eval` takes from the run, so that its validation part is the same."""


def evaluate(argv: Sequence[str]) -> None:
    """Evaluate a trained model on a split of an image set."""
    parser = Parser("eval", evaluate.__doc__ or "")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run")
    parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
    parser.add_argument("--split", choices=["train", "val", "test"], default="test", help="part of it (default: test)")
    parser.add_argument("--probabilities", type=Path, metavar="FILE.csv", help="write every image's probabilities (default: no)")
    for option in [*options_of("data", DataOptions), *options_of("", EngineOptions)]:
        parser.add_option(replace(option, default="as in the run") if option.key in AS_IN_THE_RUN else option)
    given = parser.read(argv)
    run = RunFolder(given.run)
    if not run.config.is_file():
        raise UserError(f"{given.run}: not a run folder (no config.yaml); train one with aevlp train DATA --out {given.run}")
    before = {key: value for key, value in read_recipe(run.config).items() if key in (*AS_IN_THE_RUN, "store", "train.workers")}
    config = build_config("", "an", {**before, **vars(given)})
    if given.probabilities is not None and given.probabilities.exists():
        raise UserError(f"--probabilities {given.probabilities}: exists; remove it or choose another name")

    from aevlp.data.load import load_split

    classes, split = load_split(given.data, config.data, store_root(config.run.store), given.split)

    from aevlp.engine import make_accelerator
    from aevlp.evaluate import evaluate as measure
    from aevlp.evaluate import probabilities
    from aevlp.model_folder import load_classifier
    from aevlp.results import evaluation_table, write_probabilities

    accelerator = make_accelerator(config.engine)
    classifier = load_classifier(run.model).to(accelerator.device)
    if list(classes) != classifier.classes:
        only_data = ", ".join(sorted(set(classes) - set(classifier.classes))[:5])
        only_run = ", ".join(sorted(set(classifier.classes) - set(classes))[:5])
        how = f"only in DATA: {only_data or '-'}; only in RUN: {only_run or '-'}" if only_data or only_run else "another order"
        raise UserError(f"{given.data} and {given.run} have different classes ({how}); a classes.txt beside the table fixes them")
    found = probabilities(classifier, split.paths, config.train.workers, accelerator)
    measured = measure(found, split.judged_by, classes)
    if not accelerator.is_main_process:
        return
    if given.probabilities is not None:
        write_probabilities(given.probabilities, split.names, classes, found)
    _print(evaluation_table(measured, split))


def demo(argv: Sequence[str]) -> None:
    """The embedded world, end to end: draw scenes, score, train several methods, print one table."""
    parser = Parser("demo", demo.__doc__ or "")
    parser.add_argument(
        "--out", type=Path, default=Path("demo-run"), metavar="DIR", help="folder for everything (default: demo-run)"
    )
    parser.add_argument(
        "--methods", default="full,an,gr,aevlp", metavar="A,B,..", help="methods to train (default: full,an,gr,aevlp)"
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="trainings per method, with seeds 0..N-1 (default: 1)")
    for option in options_of("", EngineOptions):
        parser.add_option(option)
    given = parser.read(argv)

    require(given.seeds >= 1, "seeds", "at least 1", given.seeds)

    from aevlp.demo.tour import tour

    engine = {key: value for key, value in vars(given).items() if key in ("device", "precision")}
    sweep, outcomes = tour(given.out, given.methods.split(","), given.seeds, engine)
    where = f"everything is in {given.out}: world/ (images), views/ (store), METHOD-SEED/ (runs)"
    _conclude(sweep, outcomes, title="demo world", caption=where)


def methods(argv: Sequence[str]) -> None:
    """List what can be trained: every method with what it is, its own options and its paper."""
    parser = Parser("methods", methods.__doc__ or "")
    parser.add_argument("names", nargs="*", metavar="NAME", help="methods to list (default: all that have a name)")
    parser.add_argument("--recipe", default="default", metavar="NAME|FILE", help="whose defaults to show (default: default)")
    parser.add_argument(
        "--protocol", choices=["common", "published"], default="common", help="under which protocol (default: common)"
    )
    parser.add_argument("--markdown", action="store_true", help="as a page for documentation (default: false)")
    given = parser.read(argv)
    values = read_recipe(recipe_file(given.recipe))
    if given.markdown:
        if given.names or given.protocol != "common":
            raise UserError("--markdown: the page has all methods under the common protocol; leave names and --protocol out")
        print(page(given.recipe, values), end="")
    else:
        chosen = [find_method(name) for name in given.names] or list(METHODS.values())
        _print(method_table(chosen, values, given.protocol))


STORE_ACTIONS = {
    "list": "List what is kept of the views: of which images, by which teacher, how much, when last used.",
    "verify": "Read everything that is kept and say what is damaged.",
    "prune": "Remove what is kept of some image sets and teachers; nothing that is in use.",
}


def store(argv: Sequence[str]) -> None:
    """List, verify or prune what is kept of the views."""
    parser = Parser("store", store.__doc__ or "")
    actions = "; ".join(f"{name}: {text[:-1]}" for name, text in STORE_ACTIONS.items())
    parser.add_argument("action", choices=STORE_ACTIONS, help=f"{actions}. aevlp store ACTION --help lists its options")
    action = parser.parse_args(argv[:1]).action

    parser = Parser(f"store {action}", STORE_ACTIONS[action])
    if action != "list":
        every = "" if action == "prune" else " (default: all)"
        parser.add_argument("keys", nargs="*", metavar="KEY", help=f"stores as listed; the beginning of a key will do{every}")
    parser.add_argument("--store", metavar="DIR", help="folder of the view store (default: AEVLP_CACHE or ~/.cache/aevlp/views)")
    if action == "prune":
        parser.add_argument("--unused-for", type=float, metavar="DAYS", help="only what no run has opened since (default: any)")
        parser.add_argument("--yes", action="store_true", help="do it, do not only say what would be removed (default: false)")
    given = parser.read(argv[1:])
    root = store_root(given.store)
    if root is None:
        raise UserError("--store none: there is nothing to look at; name a folder")
    if action == "prune":
        if not given.keys and given.unused_for is None:
            raise UserError("store prune: say what to remove: KEY... (aevlp store list shows them), --unused-for DAYS, or both")
        require(given.unused_for is None or given.unused_for >= 0, "unused-for", "at least 0", given.unused_for)

    from aevlp.damp import inventory

    found = inventory.stores(root)
    if action == "list":
        _print(inventory.table(root, found) if found else f"{root}: nothing is stored yet")
        return
    chosen = inventory.chosen(found, given.keys)
    if action == "prune":
        old = chosen if given.unused_for is None else inventory.unused(chosen, given.unused_for)
        _print(inventory.prune(root, old, given.unused_for, yes=given.yes))
        return
    verdict = inventory.verify(chosen)
    _print(inventory.render(verdict))
    if verdict.damaged:
        raise UserError(
            f"{root}: {inventory.counted(len(verdict.damaged), 'damaged file')} (listed above); "
            "the next run scores damaged shards anew, or remove the store with aevlp store prune KEY"
        )


def bench(argv: Sequence[str]) -> None:
    """Measure the pipeline's speed: each figure a ratio of two things timed side by side."""
    parser = Parser("bench", bench.__doc__ or "")
    parser.add_argument("--only", metavar="A,B,..", help="figures to measure (default: all that do not take long)")
    parser.add_argument("--repeats", type=int, metavar="N", help="rounds of each figure (default: as each figure says)")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write everything there too (default: no)")
    parser.add_argument("--list", action="store_true", help="say which figures there are, and measure none (default: false)")
    for option in options_of("", EngineOptions):
        if option.key == "device":
            parser.add_option(option)
    given = parser.read(argv)

    from aevlp.bench.report import check_free, overview, record, table
    from aevlp.bench.run import chosen, measure
    from aevlp.files import write_json

    if given.list:
        _print(overview())
        return
    figures = chosen(given.only)
    require(given.repeats is None or given.repeats >= 1, "repeats", "at least 1", given.repeats)
    if given.out is not None:
        check_free(given.out)
    engine = EngineOptions(**{key: value for key, value in vars(given).items() if key == "device"})
    measured = measure(figures, engine, given.repeats)
    _print(table(measured))
    if given.out is not None:
        write_json(given.out, record(measured))


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "demo": demo,
    "check": check,
    "score": score,
    "train": train,
    "compare": compare,
    "eval": evaluate,
    "bench": bench,
    "store": store,
    "methods": methods,
}


def _conclude(sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]], *, title: str, caption: str) -> None:
    """Prints the table of a sweep; where a training failed, the command does too."""
    _print(results_table(sweep, outcomes, title=title, caption=caption))
    failed = {trial.name: outcome for trial, outcome in outcomes if isinstance(outcome, Failure)}
    if not failed:
        return
    message = f"{len(failed)} of {len(outcomes)} trainings failed ({', '.join(failed)}); the same command again goes on with them"
    if all(failure.is_user_error for failure in failed.values()):
        raise UserError(message)
    log.error("%s", message)
    sys.exit(1)


def _summary(result: dict[str, Any], out: Path) -> str:
    """A finished run in a few lines."""
    bound = "" if result["val_labels"] == "complete" else " (of observed labels: a lower bound)"
    lines = [
        f"{result['method']}, best epoch {result['best_epoch']} of {result['epochs']}: val mAP {result['val_mAP']:.2f}{bound}"
    ]
    if result["mAP"] is not None:
        lines.append(f"test mAP {result['mAP']:.2f}")
        if abs(result["mAP"] - result["mAP_present"]) > 1e-9:
            lines[-1] += f" ({result['mAP_present']:.2f} over the classes that have a positive there)"
    return "\n".join([*lines, f"model and figures: {out}"])


def _overview() -> str:
    commands = "\n".join(f"  {name:<8} {(function.__doc__ or '').strip().splitlines()[0]}" for name, function in COMMANDS.items())
    return (
        "aevlp: train a classifier that finds all the labels from images that carry only one each.\n\n"
        f"usage: aevlp COMMAND ...\n\n{commands}\n\n"
        "aevlp COMMAND --help lists a command's options; aevlp --version tells the version."
    )


def _print(what: Any) -> None:
    if not is_first_process():
        return
    if isinstance(what, str):
        print(what)
    else:
        from rich.console import Console

        Console(width=None if sys.stdout.isatty() else 120).print(what)


def _set_up_logging() -> None:
    log.setLevel(logging.DEBUG)
    if all(handler.name != "console" for handler in log.handlers):
        console = logging.StreamHandler() if is_first_process() else logging.NullHandler()
        console.name = "console"
        console.setLevel(logging.INFO)
        log.addHandler(console)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs a command. Exit codes: 0 done; 2 the user can put it right (one line on stderr); 1 a bug (traceback)."""
    argv = sys.argv[1:] if argv is None else argv
    # Threads that spin long while they wait stop each other when anything else runs on the cores. It must be said before torch
    # is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    _set_up_logging()
    try:
        if not argv or argv[0] in ("-h", "--help", "help"):
            print(_overview())
        elif argv[0] == "--version":
            from aevlp import __version__

            print(f"aevlp {__version__}")
        elif argv[0] in COMMANDS:
            COMMANDS[argv[0]](argv[1:])
        else:
            raise UserError(f"unknown command {argv[0]}{did_you_mean(argv[0], COMMANDS)}; see aevlp --help")
    except UserError as error:
        message = " ".join(str(error).split())
        if not is_first_process():
            time.sleep(WAIT)  # what the first process has to say is mostly the same, and it says it first
            message = f"process {os.environ['RANK']}: {message}"
        print(f"aevlp: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
