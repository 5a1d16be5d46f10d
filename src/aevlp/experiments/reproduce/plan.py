"""From the rows of a table to trainings, named so that tables in one folder share the trainings they have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aevlp.config.config import Config
from aevlp.config.methods import find_method
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.config.sweep import SweepRow, config_of, exact, options_of_method
from aevlp.experiments.reproduce.targets import ReproduceRequest, TargetRow
from aevlp.training.run_folder import FREE


@dataclass(frozen=True)
class PlannedRow:
    """A row of a table with its training."""

    row: TargetRow
    training: SweepRow | None  # None: none, for the reason in `skipped`
    skipped: str = ""
    changes: Mapping[str, tuple[str, str]] | None = None  # option -> (value, the recipe's), where they differ


def plan(request: ReproduceRequest) -> list[PlannedRow]:
    """Return the rows in their order; a wrong value is a UserError.

    A training is named by the options in which it differs from the recipe with the user's options: one that differs in
    nothing has the plain name of its method, in every table.
    """
    values = read_recipe(recipe_file(request.recipe))

    def config(method: str, options: Mapping[str, Any]) -> Config:
        return config_of(request.recipe, values, method, options)

    mode = config("an", options_of_method("an", request.options)).train.mode  # `an` has no own head: it allows every mode
    planned = []
    for row in request.rows:
        head = find_method(row.method).head
        if mode != "full" and head is not None and head.sees_map:
            planned.append(PlannedRow(row, None, f"not in the mode {mode}: its head sees a map of features"))
            continue
        options = options_of_method(row.method, request.options)
        common = flat(config(row.method, options))
        varied = {key: value for key, value in row.options.items() if common[key] != value}
        now = flat(config(row.method, {**options, **varied}))
        before = flat(config(row.method, {**options_of_method(row.method, request.protocol_options), **varied}))
        changes = {
            key: (exact(value), exact(before[key]))
            for key, value in now.items()
            if key not in FREE and before[key] != value and key not in row.options
        }
        planned.append(PlannedRow(row, SweepRow(row.method, {**options, **varied}, varied), changes=changes))
    return planned


def trainings_of(planned: Sequence[PlannedRow]) -> list[SweepRow]:
    """Return the trainings of the rows, each once."""
    return list({each.training.label: each.training for each in planned if each.training is not None}.values())


def flat(config: Config) -> dict[str, Any]:
    """Return the options of a configuration by key."""
    values: dict[str, Any] = {}
    for key, value in config.as_recipe().items():
        values.update({f"{key}.{name}": each for name, each in value.items()} if isinstance(value, dict) else {key: value})
    return values


def differences(planned: Sequence[PlannedRow]) -> list[str]:
    """Return a line per option that is not as in the recipe, in some row: its value, and the recipe's."""
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for each in planned:
        for key, (now, before) in (each.changes or {}).items():
            ours, theirs = found.setdefault(key, ({}, {}))
            ours[now], theirs[before] = None, None
    return [f"`{key}` is {' or '.join(ours)}; in the recipe {' or '.join(theirs)}" for key, (ours, theirs) in found.items()]
