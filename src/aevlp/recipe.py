"""Recipes: YAML files (`recipes/`) with other defaults for a run's options, and the configuration they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import yaml

from aevlp.config import Config, DataOptions, EngineOptions, ModelOptions, RunOptions, TeacherOptions, TrainOptions
from aevlp.errors import UserError
from aevlp.heads import HEADS
from aevlp.losses import LOSSES
from aevlp.methods import Method, find_method
from aevlp.nearest import did_you_mean
from aevlp.options import Option, describe, options_of, overlay, read_value, section_values
from aevlp.sources import SOURCES

FOLDER = Path(__file__).parent / "recipes"
SECTIONS: dict[str, type] = {"data": DataOptions, "model": ModelOptions, "train": TrainOptions}
TOP = (RunOptions, EngineOptions)
EXPECTED = "train.expected_positives"  # of concern to some methods only
RENAMED = {"loss.expected_positives": EXPECTED}  # recipes and runs of 0.2.0
OWN, PUBLISHED = "methods", "published"
"""Where a recipe has other defaults for single methods: always, and with `--protocol published`."""


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def recipe_file(name: str) -> Path:
    """The file of a recipe: one that comes with the package, or a path to one's own."""
    own = FOLDER / f"{name}.yaml"
    path = own if own.is_file() else Path(name)
    if not path.is_file():
        raise UserError(
            f"--recipe {name}: no such recipe or file{did_you_mean(name, recipe_names())}; known are {', '.join(recipe_names())}"
        )
    return path


def options_for(method: Method) -> list[Option]:
    """The options of a run with that method: those of every run, and its own."""
    return [option for option in _common_options() if option.key != EXPECTED] + own_options(method)


def own_options(method: Method) -> list[Option]:
    """The options that not every method has."""
    wanted = [option for option in _common_options() if option.key == EXPECTED] if method.wants_expected_positives else []
    return [option for section, kind in method.sections.items() for option in options_of(section, kind)] + wanted


def all_options() -> dict[str, Option]:
    """The options of every method, by key; of a key that several losses have, one."""
    kinds: list[tuple[str, type[Any]]] = [("teacher", TeacherOptions)]
    kinds += [("loss", loss.options) for loss in LOSSES.values()]
    kinds += [(source.name, source.options) for source in SOURCES.values()]
    kinds += [(head.name, head.options) for head in HEADS.values()]
    own = [option for section, kind in kinds for option in options_of(section, kind)]
    return {option.key: option for option in [*_common_options(), *own]}


def _common_options() -> list[Option]:
    top = [option for kind in TOP for option in options_of("", kind)]
    return top + [option for section, kind in SECTIONS.items() for option in options_of(section, kind)]


def read_recipe(path: Path) -> dict[str, Any]:
    """Key -> value for everything that a recipe file sets, checked against the options there are.

    A recipe may set options of several methods; those of the chosen one are used. Under `methods: NAME:` and
    `published: NAME:` stand those that hold for a single method: `settings` says which count.
    """
    known = all_options()
    # Which recipe a run was made from is in its configuration, for the record.
    known.update({key: Option(key, str, "", "") for key in ("recipe", "method")})

    values: dict[str, Any] = {}
    for written, text, line in _scalars(path):
        key, where = RENAMED.get(written, written), f"{path}, line {line}"
        inside, choices = key, known
        if key.startswith((f"{OWN}.", f"{PUBLISHED}.")):
            _, name, inside = (*key.split(".", 2), "")[:3]
            choices = _known_of(name, where)
        is_section = key in (OWN, PUBLISHED) or not inside or any(name.startswith(f"{inside}.") for name in choices)
        if is_section and not text:
            continue  # with nothing in it
        if inside not in choices:
            raise UserError(f"{where}: unknown key {key}{did_you_mean(inside, choices)}")
        try:
            values[key] = read_value(text, choices[inside].kind)
        except ValueError:
            raise UserError(f"{where}: {key} must be {describe(choices[inside].kind)}, not {text!r}") from None
    return values


def _known_of(name: str, where: str) -> dict[str, Option]:
    """The options of the method called `name` in a recipe."""
    try:
        return {option.key: option for option in options_for(find_method(name))}
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def settings(values: Mapping[str, Any], method: str, protocol: str) -> dict[str, Any]:
    """What a recipe's `values` say for a method: those for all, those for it alone, and those that it was published with.

    What is set for `ll-r` holds for `boostlu+ll-r` too.
    """
    plain = {key: value for key, value in values.items() if not key.startswith((f"{OWN}.", f"{PUBLISHED}."))}
    if protocol == "published" and plain.get("protocol") != protocol and not any(key.startswith(PUBLISHED) for key in values):
        having = [name for name in recipe_names() if f"\n{PUBLISHED}:" in recipe_file(name).read_text(encoding="utf-8")]
        raise UserError(f"--protocol published: the recipe has no published settings; those that have: {', '.join(having)}")
    head, plus, rest = method.partition("+")
    names = [rest, method] if plus and head in HEADS else [method]
    for where in (OWN, PUBLISHED) if protocol == "published" else (OWN,):
        for name in names:
            plain.update(
                {key.removeprefix(f"{where}.{name}."): v for key, v in values.items() if key.startswith(f"{where}.{name}.")}
            )
    return plain


def _scalars(path: Path) -> list[tuple[str, str, int]]:
    """(key with dots, text, line number) of every value in a YAML file of mappings."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from None
    found: list[tuple[str, str, int]] = []

    def walk(node: yaml.Node | None, prefix: str) -> None:
        if node is None:
            return
        if isinstance(node, yaml.ScalarNode) and prefix:
            found.append((prefix, node.value, node.start_mark.line + 1))
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, f"{prefix}.{key.value}" if prefix else str(key.value))
        else:
            place = f"line {node.start_mark.line + 1}"
            raise UserError(f"{path}, {place}: {prefix or 'a recipe'} must be a mapping of keys to single values")

    walk(root, "")
    return found


def build_config(recipe: str, method: str, values: Mapping[str, Any]) -> Config:
    """The configuration from key -> value (what is not in it has its default, what the method does not have is left out)."""
    found = find_method(method)
    merged = overlay(options_for(found), values)

    def filled(section: str, kind: type[Any]) -> Any:
        return kind(**section_values(merged, section))

    return Config(
        recipe=recipe,
        method=found,
        run=RunOptions(**{f.name: merged[f.name] for f in fields(RunOptions)}),
        engine=EngineOptions(**{f.name: merged[f.name] for f in fields(EngineOptions)}),
        **{name: filled(name, kind) for name, kind in SECTIONS.items()},
        teacher=filled("teacher", TeacherOptions),
        loss=filled("loss", found.loss.options),
        source=filled(found.source.name, found.source.options),
        head=None if found.head is None else filled(found.head.name, found.head.options),
    )


def with_defaults(options: Iterable[Option], values: Mapping[str, Any]) -> list[Option]:
    """The options with the recipe's values as their defaults, so that --help shows what would be used."""
    return [replace(option, default=values.get(option.key, option.default)) for option in options]
