"""From the rows of a table to trainings, named so that tables in one folder share what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aevlp.config.config import Config
from aevlp.config.methods import find_method
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.config.sweep import Row, concerning, config_of, exact
from aevlp.experiments.reproduce.request import Request
from aevlp.experiments.reproduce.targets import Line
from aevlp.training.run_folder import FREE


@dataclass(frozen=True)
class Planned:
    """A row of a table, and what is to be trained for it."""

    line: Line
    row: Row | None  # None: nothing, because of `skipped`
    skipped: str = ""
    changes: Mapping[str, tuple[str, str]] | None = None  # option -> (value, the recipe's), where they differ


def plan(request: Request) -> list[Planned]:
    """The rows in their order; a wrong value is a UserError.

    A row is named by what makes it differ from the recipe with what the user says: a row that differs in nothing has the plain
    name of its method, in every table.
    """
    values = read_recipe(recipe_file(request.recipe))
    # Asked of a method without a head of its own, which goes with every mode.
    mode = config_of(request.recipe, values, "an", concerning("an", request.said)).train.mode
    planned = []
    for line in request.lines:
        method = find_method(line.method)
        if mode != "full" and method.head is not None and method.head.sees_map:
            planned.append(Planned(line, None, f"not in the mode {mode}: its head sees a map of features"))
            continue
        said = concerning(line.method, request.said)
        as_said = flat(config_of(request.recipe, values, line.method, said))
        varied = {key: value for key, value in line.options.items() if as_said[key] != value}
        now = flat(config_of(request.recipe, values, line.method, {**said, **varied}))
        usual = {**concerning(line.method, request.usual), **varied}
        before = flat(config_of(request.recipe, values, line.method, usual))
        changes = {
            key: (exact(value), exact(before[key]))
            for key, value in now.items()
            if key not in FREE and before[key] != value and key not in line.options
        }
        planned.append(Planned(line, Row(line.method, {**said, **varied}, varied), changes=changes))
    return planned


def rows_of(planned: Sequence[Planned]) -> list[Row]:
    """What is to be trained, each once."""
    return list({each.row.label: each.row for each in planned if each.row is not None}.values())


def flat(config: Config) -> dict[str, Any]:
    """The options of a configuration by key."""
    values: dict[str, Any] = {}
    for key, value in config.as_recipe().items():
        values.update({f"{key}.{name}": each for name, each in value.items()} if isinstance(value, dict) else {key: value})
    return values


def differences(planned: Sequence[Planned]) -> list[str]:
    """A line per option that is not as in the recipe, in some row: its value, and what the recipe has."""
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for each in planned:
        for key, (now, before) in (each.changes or {}).items():
            ours, theirs = found.setdefault(key, ({}, {}))
            ours[now], theirs[before] = None, None
    return [f"`{key}` is {' or '.join(ours)}; in the recipe {' or '.join(theirs)}" for key, (ours, theirs) in found.items()]
