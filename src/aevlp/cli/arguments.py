"""The arguments of commands that take a recipe: the recipe and the method decide which other options there are."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aevlp.config.config import Config
from aevlp.config.methods import find_method
from aevlp.config.recipe import (
    BACKBONE,
    FEATURES,
    MODE,
    all_options,
    config_from,
    options_for,
    own_options,
    read_recipe,
    recipe_file,
    recipe_names,
    settings,
    with_defaults,
)
from aevlp.config.sweep import Sweep
from aevlp.core.errors import UserError
from aevlp.core.options import Option, Parser
from aevlp.training.run_folder import RunFolder

Arguments = Callable[[Parser], None]
METHOD_HELP = "a name that aevlp methods lists, LOSS+SOURCE, or HEAD+either"


def configured(command: str, summary: str, argv: Sequence[str], add: Arguments) -> tuple[Namespace, Config]:
    """The arguments and the configuration of a command that takes one value per option."""
    early = _early("recipe", "method", "protocol", "out", MODE)
    early.add_argument("--features", f"--{FEATURES}", dest=FEATURES, nargs="?")
    early.add_argument("--backbone", f"--{BACKBONE}", dest=BACKBONE, nargs="?")
    early.add_argument("--resume", action="store_true")
    first = early.parse_known_args(argv)[0]

    recipe = "default" if first.recipe is None else first.recipe
    if first.resume and first.recipe is None and first.out and (started := RunFolder(Path(first.out)).config).is_file():
        path, values = started, read_recipe(started)  # a resumed run keeps what it was started with
        recipe, method = values.get("recipe", recipe), _method(first.method, values)
    else:
        path = recipe_file(recipe)
        values = read_recipe(path)
        method = _method(first.method, values)
        values = settings(values, method, first.protocol or values.get("protocol", "common"), vars(first))

    parser = Parser(command, summary)
    add(parser)
    _add_recipe(parser)
    parser.add_argument("--method", metavar="NAME", help=f"what to train: {METHOD_HELP} (default: {method})")
    for option in with_defaults(options_for(find_method(method)), values):
        parser.add_option(option)
    _refuse_strangers(parser, [method])
    given = parser.read(argv)
    return given, config_from(path, recipe, method, values, vars(given))


def swept(command: str, summary: str, argv: Sequence[str], add: Arguments) -> tuple[Namespace, Sweep]:
    """The arguments and the sweep of a command that takes several methods, and a list of values for any option."""
    first = _early("recipe", "methods").parse_known_args(argv)[0]
    recipe = "default" if first.recipe is None else first.recipe
    values = read_recipe(recipe_file(recipe))
    usual = values.get("method", "aevlp")
    methods = (usual if first.methods is None else first.methods).split(",")

    parser = ListParser(command, summary)
    add(parser)
    _add_recipe(parser)
    parser.add_argument("--methods", metavar="A,B,..", help=f"what to train: {METHOD_HELP} (default: {usual})")
    parser.add_argument("--seed", help=argparse.SUPPRESS)
    by_key = {option.key: option for method in methods for option in options_for(find_method(method)) if option.key != "seed"}
    options = list(by_key.values())
    for option in with_defaults(options, values):
        parser.add_option(option)
    _refuse_strangers(parser, methods)
    given = parser.read(argv)
    if given.seed is not None:
        raise UserError(f"--seed {given.seed}: {command} trains with seeds 0, 1, ...; say how many with --seeds N")
    # In the order of the options and not of the command line, which must not change the names of the runs.
    said = vars(given)
    return given, Sweep(recipe, methods, {option.key: said[option.key] for option in options if option.key in said})


def _method(said: str | None, values: Mapping[str, Any]) -> str:
    method: str = values.get("method", "aevlp") if said is None else said
    return method


def _early(*names: str) -> argparse.ArgumentParser:
    """A parser for what must be known before the others: it passes over all that it does not know."""
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in names:
        early.add_argument(f"--{name}", nargs="?")
    return early


def _add_recipe(parser: Parser) -> None:
    names = ", ".join(recipe_names())
    parser.add_argument("--recipe", metavar="NAME|FILE", help=f"defaults for all below: {names} or a file (default: default)")


def _refuse_strangers(parser: Parser, methods: Sequence[str]) -> None:
    """An option of another method gets an answer of its own."""
    own = dict.fromkeys(option.names[0] for method in methods for option in own_options(find_method(method)))
    whose, its = (f"--method {methods[0]}", "its") if len(methods) == 1 else (f"any of --methods {','.join(methods)}", "their")
    known = {name for action in parser._actions for name in action.option_strings}
    for name in (name for option in all_options().values() for name in option.names):
        if name not in known:
            parser.foreign_options[name] = f"{name} is not an option of {whose}; {its} own options: {', '.join(own) or 'none'}"


class ListParser(Parser):
    r"""A parser whose options take several values, separated by commas; `\,` is a comma within a value."""

    def __init__(self, command: str, summary: str) -> None:
        super().__init__(command, summary)
        one = self._negative_number_matcher.pattern.removesuffix("$")
        self._negative_number_matcher = re.compile(rf"{one}(,.*)?$")  # -2,-8 is a value too

    def add_option(self, option: Option) -> None:
        """An option of a dataclass; its result is the list of its different values."""
        super().add_option(option)
        action = self._option_string_actions[f"--{option.key}"]
        read = action.type
        assert callable(read)

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
