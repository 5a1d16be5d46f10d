"""Defaults of a run: those of the recipe, the method, the protocol and the training mode, and the configuration they lead to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aevlp.config.config import Config, build_config
from aevlp.config.methods import METHODS, find_method
from aevlp.config.recipe import OWN, PUBLISHED, RENAMED, entries, read_recipe, recipe_file, recipe_names
from aevlp.config.run_options import all_options, options_for, own_options
from aevlp.core.errors import OptionError, UserError
from aevlp.core.options import Option
from aevlp.models.heads import HEADS

MODE, FEATURES, BACKBONE = "train.mode", "model.features", "model.backbone"
LINEAR: dict[str, Any] = {
    "train.epochs": 8,
    "loss.schedule_epochs": 5,
    "train.batch_size": 16,
    "train.optimizer": "adam",
    "train.head_learning_rate": 1e-3,
    "train.patience": None,
    "train.max_drop": None,
}
"""Defaults of linear mode; recipes are made for full training."""
DRAWS, LINEAR_DRAWS = "damp.draws", 4
"""Draws of views in linear mode, unless the recipe sets them: its many short epochs do not need one each."""


def settings(values: Mapping[str, Any], method: str, protocol: str, said: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a recipe's defaults for a method: those for all methods, for it alone, and those it was published with.

    `said` holds the user's options; the training mode among them brings defaults of its own.
    """
    return _in_mode(_of_method(values, method, protocol), said or {})


def _in_mode(values: dict[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Add the defaults of the mode: below a recipe made for this mode, above one made for another."""
    if _has_features(said) and said.get(BACKBONE) is not None:
        raise UserError(f"--backbone {said[BACKBONE]}: has no part in a training on --features; leave one of them out")
    made_for, asked_for = _mode_of(values), _mode_of(said)
    mode = asked_for or made_for or "full"
    if mode != "linear":
        kept = {key: value for key, value in values.items() if key not in LINEAR} if made_for == "linear" else values
        return {**kept, MODE: mode}
    if made_for == mode:
        return {**LINEAR, **values, MODE: mode}
    return {**values, **LINEAR, DRAWS: values.get(DRAWS) or LINEAR_DRAWS, MODE: mode}


def _mode_of(values: Mapping[str, Any]) -> str | None:
    """Return the mode that the values ask for. Training on features implies linear mode."""
    return values.get(MODE) or ("linear" if _has_features(values) else None)


def _has_features(values: Mapping[str, Any]) -> bool:
    return values.get(FEATURES) not in (None, "null")


def _of_method(values: Mapping[str, Any], method: str, protocol: str) -> dict[str, Any]:
    plain = {key: value for key, value in values.items() if not key.startswith((f"{OWN}.", f"{PUBLISHED}."))}
    if "recipe" in plain:  # the configuration of a run: everything is decided
        before = (plain.get("method", method), plain.get("protocol", "common"))
        if "published" in (protocol, before[1]) and (method, protocol) != before:
            raise UserError(
                f"--method {method} --protocol {protocol}: the recipe is a run of {before[0]} with the {before[1]} protocol; "
                f"use the one that it was made from, {plain['recipe']}"
            )
        return plain
    if protocol == "published" and not any(key.startswith(f"{PUBLISHED}.") for key in values):
        having = [name for name in recipe_names() if f"\n{PUBLISHED}:" in recipe_file(name).read_text(encoding="utf-8")]
        raise UserError(f"--protocol published: the recipe has no published settings; those that have: {', '.join(having)}")
    for prefix in _prefixes(method, protocol):
        plain.update({key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)})
    return plain


def _prefixes(method: str, protocol: str) -> list[str]:
    """Return the key prefixes of a recipe's settings for one method; later ones win."""
    places = (OWN, PUBLISHED) if protocol == "published" else (OWN,)
    return [f"{place}.{name}." for place in places for name in _names_of(method)]


def _names_of(method: str) -> list[str]:
    """Return the names under which a recipe may set options of a method; later ones win.

    Settings of `ll-r` apply to `boostlu+ll-r`, and those of `em-apl` to `em-apl+apl`, which is the same method.
    """
    head, _, rest = method.partition("+")
    parts = find_method(method).parts
    same = [known.name for known in METHODS.values() if known.parts == parts]
    return [*(_names_of(rest) if head in HEADS else []), *same, method]


def config_from(path: Path, recipe: str, method: str, values: Mapping[str, Any], said: Mapping[str, Any]) -> Config:
    """Return the configuration from a recipe's `values` and what the user `said` instead; a wrong value is a UserError.

    If the recipe itself is wrong, the error names the line in its file, `path`.
    """
    try:
        return build_config(recipe, method, {**values, **said})
    except OptionError as error:
        wrong = _out_of_range(recipe, method, values)
        if wrong is None or wrong.option != error.option or error.option in said:
            raise
        protocol = said.get("protocol", values.get("protocol", "common"))
        lines = {RENAMED.get(entry.key, entry.key): entry.line for entry in entries(path)}
        keys = [key for prefix in ("", *_prefixes(method, protocol)) if (key := f"{prefix}{error.option}") in lines]
        place, key = (f"{path}, line {lines[keys[-1]]}", keys[-1]) if keys else (path, error.option)  # else the default is wrong
        raise UserError(f"{place}: {key} {error.wrong}") from None


def _out_of_range(recipe: str, method: str, values: Mapping[str, Any]) -> OptionError | None:
    """Return the error of the recipe by itself, None if it is fine."""
    try:
        build_config(recipe, method, values)
    except OptionError as error:
        return error
    return None


@dataclass(frozen=True)
class Defaults:
    """A recipe, a method, and the defaults that they give the options of a run."""

    path: Path  # of the recipe's file
    recipe: str
    method: str
    values: Mapping[str, Any]

    @property
    def options(self) -> list[Option]:
        """The options of the method, with these defaults."""
        return with_defaults(options_for(find_method(self.method)), self.values)

    def config(self, said: Mapping[str, Any]) -> Config:
        """Return the configuration with what the user `said`: key -> value."""
        return config_from(self.path, self.recipe, self.method, self.values, said)


def choose_defaults(said: Mapping[str, Any], resumed: Path | None = None) -> Defaults:
    """Return the defaults of the recipe, method, protocol and mode that the user `said`; None stands for the usual ones.

    `resumed` is the `config.yaml` of a run to continue: it keeps what it was started with, unless the user names a recipe.
    """
    recipe = "default" if said.get("recipe") is None else said["recipe"]
    if resumed is not None and said.get("recipe") is None:
        values = read_recipe(resumed)
        return Defaults(resumed, values.get("recipe", recipe), said.get("method") or values.get("method", "aevlp"), values)
    path = recipe_file(recipe)
    values = read_recipe(path)
    method = values.get("method", "aevlp") if said.get("method") is None else said["method"]
    protocol = said.get("protocol") or values.get("protocol", "common")
    return Defaults(path, recipe, method, settings(values, method, protocol, said))


def foreign_options(methods: Sequence[str]) -> dict[str, str]:
    """Return option name -> why it is refused, for every option that only other methods have."""
    chosen = [find_method(name) for name in methods]
    own = dict.fromkeys(option.names[0] for method in chosen for option in own_options(method))
    whose, its = (f"--method {methods[0]}", "its") if len(methods) == 1 else (f"any of --methods {','.join(methods)}", "their")
    known = {option.key for method in chosen for option in options_for(method)}
    foreign = [name for key, option in all_options().items() if key not in known for name in option.names]
    return {name: f"{name} is not an option of {whose}; {its} own options: {', '.join(own) or 'none'}" for name in foreign}


def with_defaults(options: Iterable[Option], values: Mapping[str, Any]) -> list[Option]:
    """Return the options with these values as their defaults, as --help shows them."""
    return [replace(option, default=values.get(option.key, option.default)) for option in options]
