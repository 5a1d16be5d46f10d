"""Arguments of the commands that take a recipe: the recipe and the method decide which options there are."""

import argparse
import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from aevlp.config.config import Config
from aevlp.config.defaults import BACKBONE, FEATURES, MODE, choose_defaults, foreign_options, with_defaults
from aevlp.config.methods import METHODS, find_method
from aevlp.config.recipe import read_recipe, recipe_file, recipe_names
from aevlp.config.run_options import options_for
from aevlp.config.sweep import Sweep
from aevlp.core.errors import UserError
from aevlp.core.options import Option, Options, Parser
from aevlp.models.heads import HEADS
from aevlp.training.run_folder import RunFolder, open_run

DRY_RUN = "say what there is to do, how long it takes here and how much disk, and do nothing (default: false)"
Arguments = Callable[[Parser], None]
OptionsT = TypeVar("OptionsT", bound=Options)
METHOD_HELP = "a name that aevlp methods lists, LOSS+SOURCE, or HEAD+either"
GROUPS = ("data", "teacher", "pseudo-labels", "loss", "training", "output")
COMMON = {
    *("data.observe", "data.answers", "teacher.name", "teacher.prompts", MODE, "train.epochs", BACKBONE, FEATURES),
    *("train.expected_positives", "seed", "device", "store", "track"),
}
"""Options that `--help` shows; `--help-all` shows the rest."""
LISTS = {"track"}
"""Options whose value is a list by itself: every run of a sweep has all of it."""


def configured(
    command: str, summary: str, argv: Sequence[str], add: Arguments, *, example: str = "", takes_run: bool = False
) -> tuple[Namespace, Config]:
    """Return the arguments and the configuration of a command that takes one value per option.

    With `takes_run`, the configuration of the run that `--run` names is the recipe, unless `--recipe` names another.
    """
    early = _early("recipe", "method", "protocol", "out", "resume", MODE, *(["run"] if takes_run else []))
    early.add_argument("--features", f"--{FEATURES}", dest=FEATURES, nargs="?")
    early.add_argument("--backbone", f"--{BACKBONE}", dest=BACKBONE, nargs="?")
    first = early.parse_known_args(argv)[0]

    if takes_run and first.run and first.recipe is None:
        first.recipe = str(open_run(Path(first.run)).config)
    # With `--resume auto` the words must say all: without the run in --out, they start it.
    started = RunFolder(Path(first.out)).config if first.resume not in (None, "auto") and first.out else None
    defaults = choose_defaults(vars(first), started if started is not None and started.is_file() else None)
    parser = Parser(command, summary, example)
    add(parser)
    _add_recipe(parser)
    method = parser.add_argument("--method", metavar="NAME", help=f"what to train: {METHOD_HELP} (default: {defaults.method})")
    method.completer = lambda **_: list(METHODS)  # type: ignore[attr-defined]
    _add_options(parser, defaults.options)
    parser.foreign_options = foreign_options([defaults.method])
    given = parser.read(argv)
    return given, defaults.config(vars(given))


def swept(command: str, summary: str, argv: Sequence[str], add: Arguments, *, example: str = "") -> tuple[Namespace, Sweep]:
    """Return the arguments and the sweep of a command that takes several methods, and a list of values for any option."""
    first = _early("recipe", "methods").parse_known_args(argv)[0]
    recipe = "default" if first.recipe is None else first.recipe
    values = read_recipe(recipe_file(recipe))
    usual = values.get("method", "aevlp")
    methods = (usual if first.methods is None else first.methods).split(",")

    parser = ListParser(command, summary, example)
    add(parser)
    _add_recipe(parser)
    parser.add_argument("--methods", metavar="A,B,..", help=f"what to train: {METHOD_HELP} (default: {usual})")
    parser.add_argument("--seed", help=argparse.SUPPRESS)
    by_key = {option.key: option for method in methods for option in options_for(find_method(method)) if option.key != "seed"}
    options = list(by_key.values())
    _add_options(parser, with_defaults(options, values))
    parser.foreign_options = foreign_options(methods)
    given = parser.read(argv)
    if given.seed is not None:
        raise UserError(f"--seed {given.seed}: {command} trains with seeds 0, 1, ...; say how many with --seeds N")
    # In the order of the options and not of the command line, which must not change the names of the runs.
    said = vars(given)
    return given, Sweep(recipe, methods, {option.key: said[option.key] for option in options if option.key in said})


def options_from(given: Namespace, kind: type[OptionsT]) -> OptionsT:
    """Return the options of a section-less dataclass from the arguments that were given."""
    said = vars(given)
    return kind(**{field.name: said[field.name] for field in fields(kind) if field.name in said})


def group_of(option: Option) -> str:
    """Return the group of `--help` that an option of a run belongs to."""
    section = option.key.partition(".")[0]
    if section in ("data", "teacher", "loss"):
        return section
    if section in ("store", "report", "track", "thresholds"):
        return "output"
    is_about_training = "." not in option.key or section in ("model", "train") or section in HEADS
    return "training" if is_about_training else "pseudo-labels"


def _add_options(parser: Parser, options: Sequence[Option]) -> None:
    """Add the options of a run, group by group."""
    for group in GROUPS:
        for option in options:
            if group_of(option) == group:
                parser.add_option(option, group=group, rare=option.key not in COMMON)


def _early(*names: str) -> argparse.ArgumentParser:
    """Return a parser for the options that decide which others there are; it passes over everything else."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in names:
        early.add_argument(f"--{name}", nargs="?")
    return early


def _add_recipe(parser: Parser) -> None:
    names = ", ".join(recipe_names())
    text = f"defaults for all below: {names} or a file (default: default)"
    recipe = parser.add_argument("--recipe", metavar="NAME|FILE", help=text)
    recipe.completer = lambda **_: recipe_names()  # type: ignore[attr-defined]


class ListParser(Parser):
    r"""A parser whose options take several values, separated by commas; `\,` is a comma within a value."""

    def __init__(self, command: str, summary: str, example: str = "") -> None:
        super().__init__(command, summary, example)
        one = self._negative_number_matcher.pattern.removesuffix("$")
        self._negative_number_matcher = re.compile(rf"{one}(,.*)?$")  # -2,-8 is a value too

    def add_option(self, option: Option, *, group: str | None = None, rare: bool = False) -> None:
        """Add an option of a dataclass; its result is the list of its different values."""
        super().add_option(option, group=group, rare=rare)
        action = self._option_string_actions[f"--{option.key}"]
        read = action.type
        assert callable(read)
        if option.key in LISTS:
            action.type = lambda text: [read(text)]
            return

        def read_all(text: str) -> list[Any]:
            parts = [part.replace(r"\,", ",") for part in re.split(r"(?<!\\),", text)]
            if len(parts) > 1 and "" in parts:
                raise argparse.ArgumentTypeError(
                    f"has an empty value in its list {text!r}; remove a comma, or write \\, in a text"
                )
            return list(dict.fromkeys(read(part) for part in parts))

        action.type, action.metavar = read_all, "VALUE,.."
        if action.const is not None:
            action.const = [action.const]
