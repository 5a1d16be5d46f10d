"""What the command line asks for."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aevlp.config.defaults import with_defaults
from aevlp.config.methods import find_method
from aevlp.config.options import all_options, options_for
from aevlp.config.recipe import read_recipe, recipe_file, recipe_names
from aevlp.core.errors import UserError, did_you_mean, require
from aevlp.core.options import Parser
from aevlp.experiments.reproduce.targets import TARGETS, Line, Target, backbone_lines

DEMO = "demo"  # of --data: the embedded world
QUICK: Mapping[str, Any] = {"train.epochs": 2, "damp.draws": 1}
"""What --quick sets, unless the user says otherwise."""


@dataclass(frozen=True)
class Request:
    """A target on a data set."""

    target: Target
    lines: Sequence[Line]
    recipe: str
    data: Path | None  # None: the embedded world
    out: Path
    seeds: int
    jobs: int
    quick: bool
    usual: Mapping[str, Any]  # options that hold for every row, whatever the user says: those of the paper's protocol
    said: Mapping[str, Any]  # the same under what the user says
    command: str


def read_request(summary: str, argv: Sequence[str]) -> Request:
    """The target, its rows and its options; whatever is wrong with them is refused here."""
    target = _target(summary, argv)
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("recipe", "data"):
        early.add_argument(f"--{name}", nargs="?")
    first = early.parse_known_args(argv)[0]
    usual_recipe = DEMO if first.data in (None, DEMO) else "default"
    recipe = usual_recipe if first.recipe is None else first.recipe
    values = read_recipe(recipe_file(recipe))
    usual: dict[str, Any] = {"report": False} | ({} if "data.observe" in values else {"data.observe": "single"})

    given = _parser(target, {**values, **usual}).read(argv[1:])
    require(given.seeds >= 1, "seeds", "at least 1", given.seeds)
    require(given.jobs >= 1, "jobs", "at least 1", given.jobs)
    if given.seed is not None:
        raise UserError(f"--seed {given.seed}: reproduce trains with seeds 0, 1, ...; say how many with --seeds N")
    if given.data is None and recipe != DEMO:
        raise UserError(f"--recipe {recipe} needs --data DATA: the image set ({DEMO}: the embedded world)")
    data = None if given.data in (None, DEMO) else Path(given.data)

    said = {key: value for key, value in vars(given).items() if key in all_options() and key != "seed"}
    lines = target.lines
    if target.name == "table6":
        if values.get("model.features") is not None:
            raise UserError(f"--recipe {recipe}: table6 compares backbones, and the recipe has features in place of one")
        usual_backbone = values.get("model.backbone", all_options()["model.backbone"].default)
        lines = backbone_lines(usual_backbone, said.pop("model.backbone", None), said.get("model.image_size"))
    if data is None:
        usual["store"] = str(given.out / "views")
    return Request(
        target=target,
        lines=lines,
        recipe=recipe,
        data=data,
        out=given.out,
        seeds=given.seeds,
        jobs=given.jobs,
        quick=given.quick,
        usual=usual,
        said={**usual, **(QUICK if given.quick else {}), **said},
        command=shlex.join(["aevlp", "reproduce", *argv]),
    )


def _target(summary: str, argv: Sequence[str]) -> Target:
    """The target, which is the first word."""
    word = argv[0] if argv and not argv[0].startswith("-") else None
    if word in TARGETS:
        return TARGETS[word]
    known = ", ".join(TARGETS)
    if word is not None:
        raise UserError(f"reproduce {word}: no such table or figure{did_you_mean(word, TARGETS)}; there are {known}")
    parser = Parser("reproduce", summary)
    shown = "; ".join(f"{target.name}: {target.title.partition(': ')[2]}" for target in TARGETS.values())
    parser.add_argument("target", metavar="TARGET", help=f"{shown}. aevlp reproduce TARGET --help lists the options of its runs")
    _add_arguments(parser)
    if any(each in ("-h", "--help") for each in argv):
        parser.parse_args(["--help"])
    raise UserError(f"reproduce: say what first: {known}, as in aevlp reproduce table1 --out DIR")


def _add_arguments(parser: Parser) -> None:
    """What all targets have."""
    add, names = parser.add_argument, ", ".join(recipe_names())
    add("--out", type=Path, required=True, metavar="DIR", help="folder for the table, the picture and the runs")
    add("--data", metavar="DATA", help=f"the image set, or {DEMO}, the embedded world (default: {DEMO}, with its recipe or none)")
    usually = f"{DEMO} for the embedded world, else default"
    add("--recipe", metavar="NAME|FILE", help=f"defaults of the runs: {names} or a file (default: {usually})")
    add("--seeds", type=int, default=3, metavar="N", help="train each row with seeds 0..N-1 (default: 3)")
    add("--jobs", type=int, default=1, metavar="N", help="trainings at a time (default: 1)")
    add("--quick", action="store_true", help="few epochs, draws and images; the figures mean nothing (default: false)")


def _parser(target: Target, values: Mapping[str, Any]) -> Parser:
    """The options of a target: those of all, and those of the runs it consists of, but for what its rows set."""
    parser = Parser(f"reproduce {target.name}", f"{target.title}, as a table (Markdown, CSV) and a picture.")
    _add_arguments(parser)
    parser.add_argument("--seed", help=argparse.SUPPRESS)

    lists = ["model.backbone"] if target.name == "table6" else []
    own = [key for key in target.own if key not in lists]
    by_key = {option.key: option for method in target.methods for option in options_for(find_method(method))}
    for option in with_defaults([by_key[key] for key in by_key if key != "seed" and key not in own], values):
        if option.key in lists:
            option = replace(option, help=f"{option.help} Several, separated by commas, are the rows of the table.")
        parser.add_option(option)
    for key, option in all_options().items():
        for name in option.names:
            if key in own:
                parser.foreign_options[name] = f"{name} is what the rows of {target.name} differ in; leave it out"
            elif key not in by_key:
                parser.foreign_options[name] = (
                    f"{name} is not an option of what {target.name} trains: {', '.join(target.methods)}"
                )
    for name in ("--method", "--methods"):
        parser.foreign_options[name] = (
            f"{name}: {target.name} has methods of its own: {', '.join(target.methods)}; see aevlp compare"
        )
    return parser
