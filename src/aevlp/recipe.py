"""Recipes: YAML files (`recipes/`) with other defaults for a run's options, and the configuration they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import yaml

from aevlp.config import (
    Config,
    DampOptions,
    DataOptions,
    EngineOptions,
    ModelOptions,
    RunOptions,
    TeacherOptions,
    TrainOptions,
)
from aevlp.errors import UserError
from aevlp.losses import LOSSES
from aevlp.methods import find_method
from aevlp.nearest import did_you_mean
from aevlp.options import Option, describe, options_of, overlay, read_value, section_values

FOLDER = Path(__file__).parent / "recipes"
SECTIONS: dict[str, type] = {
    "data": DataOptions,
    "teacher": TeacherOptions,
    "damp": DampOptions,
    "model": ModelOptions,
    "train": TrainOptions,
}
TOP = (RunOptions, EngineOptions)


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


def common_options() -> list[Option]:
    """The options that do not depend on the method."""
    top = [option for kind in TOP for option in options_of("", kind)]
    return top + [option for section, kind in SECTIONS.items() for option in options_of(section, kind)]


def loss_options(method: str) -> list[Option]:
    """The options of the method's loss."""
    return options_of("loss", find_method(method).loss.options)


def read_recipe(path: Path) -> dict[str, Any]:
    """Key -> value for everything that a recipe file sets, checked against the options there are.

    A recipe may set options of several losses; those of the chosen method's loss are used.
    """
    known = {option.key: option for option in common_options()}
    for loss in LOSSES.values():
        known.update({option.key: option for option in options_of("loss", loss.options)})
    # Which recipe a run was made from is in its configuration, for the record.
    known.update({key: Option(key, str, "", "") for key in ("recipe", "method")})

    values: dict[str, Any] = {}
    for key, text, line in _scalars(path):
        if not text and any(name.startswith(f"{key}.") for name in known):
            continue  # a section with nothing in it
        if key not in known:
            raise UserError(f"{path}, line {line}: unknown key {key}{did_you_mean(key, known)}")
        try:
            values[key] = read_value(text, known[key].kind)
        except ValueError:
            raise UserError(f"{path}, line {line}: {key} must be {describe(known[key].kind)}, not {text!r}") from None
    return values


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
    """The configuration from key -> value (what is not in it has its default)."""
    options = common_options() + loss_options(method)
    merged = overlay(options, values)
    sections = {name: kind(**section_values(merged, name)) for name, kind in SECTIONS.items()}
    run = RunOptions(**{f.name: merged[f.name] for f in fields(RunOptions)})
    engine = EngineOptions(**{f.name: merged[f.name] for f in fields(EngineOptions)})
    loss = find_method(method).loss.options(**section_values(merged, "loss"))
    return Config(recipe=recipe, method=method, run=run, engine=engine, loss=loss, **sections)


def with_defaults(options: Iterable[Option], values: Mapping[str, Any]) -> list[Option]:
    """The options with the recipe's values as their defaults, so that --help shows what would be used."""
    return [replace(option, default=values.get(option.key, option.default)) for option in options]
