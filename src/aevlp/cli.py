"""The command line: one function per command.

Heavy libraries are loaded by the command that needs them, after its arguments are read: help and errors come at once.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aevlp.cache import store_root
from aevlp.config import Config, DataOptions, EngineOptions
from aevlp.engine import is_first_process
from aevlp.errors import UserError
from aevlp.methods import METHODS
from aevlp.nearest import did_you_mean
from aevlp.options import Parser, options_of
from aevlp.recipe import (
    build_config,
    common_options,
    loss_options,
    read_recipe,
    recipe_file,
    recipe_names,
    with_defaults,
)
from aevlp.runs import RunFolder

log = logging.getLogger("aevlp")
Arguments = Callable[[Parser], None]
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

    given, config = _configured("score", score.__doc__ or "", argv, add)
    if config.run.store == "none":
        raise UserError("--store none: there is nothing to fill; name a folder")

    from aevlp.data.load import load

    root = store_root(config.run.store)
    data = load(given.data, config.data, root)

    from aevlp.engine import make_accelerator
    from aevlp.sources.damp import DampSource

    DampSource(data.train, data.classes, config, root, make_accelerator(config.engine)).fill()


def train(argv: Sequence[str]) -> None:
    """Train a classifier that finds all labels from images of which only some are known."""

    def add(parser: Parser) -> None:
        parser.add_argument("data", type=Path, metavar="DATA", help="the image set")
        parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder for the run")
        parser.add_argument("--resume", action="store_true", help="go on where the run in --out stopped (default: false)")
        parser.add_argument("--overwrite", action="store_true", help="replace the run in --out (default: false)")

    given, config = _configured("train", train.__doc__ or "", argv, add)
    if given.resume and given.overwrite:
        raise UserError("--resume and --overwrite exclude each other: leave one out")

    from aevlp.start import start_training

    result = start_training(config, given.data, RunFolder(given.out), resume=given.resume, overwrite=given.overwrite)
    _print(_summary(result, given.out))


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
    from aevlp.model import load_classifier
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

    if given.seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {given.seeds}")

    from aevlp.demo.tour import tour

    _print(
        tour(
            given.out,
            given.methods.split(","),
            given.seeds,
            {k: v for k, v in vars(given).items() if k in ("device", "precision")},
        )
    )


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "demo": demo,
    "check": check,
    "score": score,
    "train": train,
    "eval": evaluate,
}


def _configured(command: str, summary: str, argv: Sequence[str], add: Arguments) -> tuple[Namespace, Config]:
    """The arguments and the configuration of a command that takes a recipe.

    The recipe and the method decide which other options there are and what their defaults are, so these two are read first.
    """
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("recipe", "method", "out"):
        early.add_argument(f"--{name}", nargs="?")
    early.add_argument("--resume", action="store_true")
    first = early.parse_known_args(argv)[0]

    recipe = first.recipe or "default"
    if first.resume and first.recipe is None and first.out and (started := RunFolder(Path(first.out)).config).is_file():
        values = read_recipe(started)  # a resumed run keeps what it was started with
        recipe = values.get("recipe", recipe)
    else:
        values = read_recipe(recipe_file(recipe))
    method = first.method or values.get("method", "aevlp")
    options = with_defaults(common_options() + loss_options(method), values)

    parser = Parser(command, summary)
    add(parser)
    names = ", ".join(recipe_names())
    parser.add_argument("--recipe", metavar="NAME|FILE", help=f"defaults for all below: {names} or a file (default: default)")
    methods = ", ".join(f"{name} ({known.summary})" for name, known in METHODS.items())
    parser.add_argument("--method", metavar="NAME", help=f"what to train: {methods}, or LOSS+SOURCE (default: {method})")
    for option in options:
        parser.add_option(option)
    given = parser.read(argv)
    return given, build_config(recipe, method, {**values, **vars(given)})


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
        # From a worker process an error comes with a traceback in its text; its last line is what was said there.
        message = " ".join(str(error).rsplit("BadImage: ", 1)[-1].split())
        if not is_first_process():
            time.sleep(WAIT)  # what the first process has to say is mostly the same, and it says it first
            message = f"process {os.environ['RANK']}: {message}"
        print(f"aevlp: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
