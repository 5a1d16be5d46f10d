"""aevlp reproduce: the paper's tables and figures."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from aevlp.cli.arguments import COMMON, group_of
from aevlp.cli.compare import exit_on_failures
from aevlp.config.defaults import with_defaults
from aevlp.config.methods import find_method
from aevlp.config.recipe import read_recipe, recipe_file, recipe_names
from aevlp.config.run_options import all_options, options_for
from aevlp.core.errors import UserError, did_you_mean
from aevlp.core.options import AtLeast, Options, Parser, options_of
from aevlp.core.remote import local_path, location
from aevlp.core.tables import next_steps, show
from aevlp.experiments.reproduce.targets import TARGETS, ReproduceRequest, ReproduceTarget, backbone_rows

DEMO = "demo"  # of --data: the embedded world
QUICK: Mapping[str, Any] = {"train.epochs": 2, "damp.draws": 1}
"""Options that --quick sets, unless the user gives them."""


@dataclass(frozen=True)
class ReproduceOptions(Options):
    """Options of the command itself; those of its runs come from the recipe."""

    seeds: Annotated[int, AtLeast(1)] = 3
    """Train each row with seeds 0 to N-1."""
    jobs: Annotated[int, AtLeast(1)] = 1
    """Trainings at a time."""


def reproduce(argv: Sequence[str]) -> None:
    """Make a table or a figure of the paper on an image set, beside the paper's own where the set is the same."""
    request = read_request(argv)

    from aevlp.experiments.reproduce.run import run_target

    text, sheet = run_target(request)
    show(text)
    base = request.out / request.target.name
    show(f"written: {base}.md, {base}.csv, {base}.png")
    exit_on_failures(sheet.outcomes, "seeds" if request.target.kind == "labels" else "trainings")
    if request.quick:  # it was only a trial
        show(next_steps(["reproduce", *(word for word in argv if word != "--quick")]))


def read_request(argv: Sequence[str]) -> ReproduceRequest:
    """Return the target, its rows and its options; refuse whatever is wrong with them."""
    target = _target(argv)
    early = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("recipe", "data"):
        early.add_argument(f"--{name}", nargs="?")
    first = early.parse_known_args(argv)[0]
    default_recipe = DEMO if first.data in (None, DEMO) else "default"
    recipe = default_recipe if first.recipe is None else first.recipe
    values = read_recipe(recipe_file(recipe))
    protocol: dict[str, Any] = {"report": False} | ({} if "data.observe" in values else {"data.observe": "single"})

    given = _parser(target, {**values, **protocol}).read(argv[1:])
    own = ReproduceOptions(**{key: value for key, value in vars(given).items() if key in ("seeds", "jobs")})
    if given.seed is not None:
        raise UserError(f"--seed {given.seed}: reproduce trains with seeds 0, 1, ...; say how many with --seeds N")
    if given.data is None and recipe != DEMO:
        raise UserError(f"--recipe {recipe} needs --data DATA: the image set ({DEMO}: the embedded world)")
    data = None if given.data in (None, DEMO) else location(given.data)

    options = {key: value for key, value in vars(given).items() if key in all_options() and key != "seed"}
    rows = target.rows
    if target.name == "table6":
        if values.get("model.features") is not None:
            raise UserError(f"--recipe {recipe}: table6 compares backbones, and the recipe has features in place of one")
        backbone = values.get("model.backbone", all_options()["model.backbone"].default)
        rows = backbone_rows(backbone, options.pop("model.backbone", None), options.get("model.image_size"))
    if data is None:
        protocol["store"] = str(given.out / "views")
    return ReproduceRequest(
        target=target,
        rows=rows,
        recipe=recipe,
        data=data,
        out=given.out,
        seeds=own.seeds,
        jobs=own.jobs,
        quick=given.quick,
        protocol_options=protocol,
        options={**protocol, **(QUICK if given.quick else {}), **options},
        command=shlex.join(["aevlp", "reproduce", *argv]),
    )


def _target(argv: Sequence[str]) -> ReproduceTarget:
    """Return the target, which is the first word."""
    word = argv[0] if argv and not argv[0].startswith("-") else None
    if word in TARGETS:
        return TARGETS[word]
    known = ", ".join(TARGETS)
    if word is not None:
        raise UserError(f"reproduce {word}: no such table or figure{did_you_mean(word, TARGETS)}; there are {known}")
    parser = Parser(
        "reproduce", reproduce.__doc__ or "", "aevlp reproduce table1 --data VOCdevkit/VOC2012 --recipe voc --out tables"
    )
    shown = "; ".join(f"{target.name}: {target.title.partition(': ')[2]}" for target in TARGETS.values())
    parser.add_argument("target", metavar="TARGET", help=f"{shown}. aevlp reproduce TARGET --help lists the options of its runs")
    _add_arguments(parser)
    if any(each in ("-h", "--help") for each in argv):
        parser.parse_args(["--help"])
    raise UserError(f"reproduce: say what first: {known}, as in aevlp reproduce table1 --out DIR")


def _add_arguments(parser: Parser) -> None:
    """Add the options that all targets have."""
    add, names = parser.add_argument, ", ".join(recipe_names())
    add("--out", type=local_path, required=True, metavar="DIR", help="folder for the table, the picture and the runs")
    add("--data", metavar="DATA", help=f"the image set, or {DEMO}, the embedded world (default: {DEMO}, with its recipe or none)")
    usually = f"{DEMO} for the embedded world, else default"
    add("--recipe", metavar="NAME|FILE", help=f"defaults of the runs: {names} or a file (default: {usually})")
    for option in options_of("", ReproduceOptions):
        parser.add_option(option)
    add("--quick", action="store_true", help="few epochs, draws and images; the figures mean nothing (default: false)")


def _parser(target: ReproduceTarget, values: Mapping[str, Any]) -> Parser:
    """Return the parser of a target: the options of all targets and of its runs, except those that its rows set."""
    parser = Parser(f"reproduce {target.name}", f"{target.title}, as a table (Markdown, CSV) and a picture.")
    _add_arguments(parser)
    parser.add_argument("--seed", help=argparse.SUPPRESS)

    lists = ["model.backbone"] if target.name == "table6" else []
    own = [key for key in target.own if key not in lists]
    by_key = {option.key: option for method in target.methods for option in options_for(find_method(method))}
    for option in with_defaults([by_key[key] for key in by_key if key != "seed" and key not in own], values):
        if option.key in lists:
            option = replace(option, help=f"{option.help} Several, separated by commas, are the rows of the table.")
        parser.add_option(option, group=group_of(option), rare=option.key not in COMMON)
    methods = ", ".join(target.methods)
    for key, option in all_options().items():
        for name in option.names:
            if key in own:
                parser.foreign_options[name] = f"{name} is what the rows of {target.name} differ in; leave it out"
            elif key not in by_key:
                parser.foreign_options[name] = f"{name} is not an option of what {target.name} trains: {methods}"
    for name in ("--method", "--methods"):
        parser.foreign_options[name] = f"{name}: {target.name} has methods of its own: {methods}; see aevlp compare"
    return parser
