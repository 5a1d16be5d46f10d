"""Recipes: YAML files (`recipes/`) with other defaults for a run's options, and the configuration they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import yaml

from aevlp.config.config import Config, RunOptions, ThresholdOptions, TrainOptions
from aevlp.config.methods import METHODS, Method, find_method
from aevlp.config.recipe_lines import Entry, entries
from aevlp.core.errors import OptionError, UserError, did_you_mean
from aevlp.core.options import Option, describe, options_of, overlay, read_value, section_values
from aevlp.core.processes import EngineOptions
from aevlp.data.load import DataOptions
from aevlp.losses import LOSSES
from aevlp.models.heads import HEADS
from aevlp.models.options import ModelOptions, TeacherOptions
from aevlp.sources import SOURCES

FOLDER = Path(__file__).parent / "recipes"
SECTIONS: dict[str, type] = {"data": DataOptions, "model": ModelOptions, "train": TrainOptions, "thresholds": ThresholdOptions}
TOP = (RunOptions, EngineOptions)
SOMETIMES: dict[str, Callable[[Method], bool]] = {
    "compat": lambda method: method.source.follows_compat,
}
"""Options of all runs that are of concern to some methods only."""
RENAMED = {"loss.expected_positives": "train.expected_positives"}  # recipes and runs of 0.2.0
OWN, PUBLISHED = "methods", "published"
"""Where a recipe has other defaults for single methods: always, and with `--protocol published`."""
MODE, FEATURES, BACKBONE = "train.mode", "model.features", "model.backbone"
LINEAR: dict[str, Any] = {
    "train.epochs": 25,
    "train.batch_size": 16,
    "train.optimizer": "adam",
    "train.head_learning_rate": 1e-3,
    "train.patience": None,
    "train.max_drop": None,
}
"""What is usual in linear mode, where recipes are made for full training."""
DRAWS, LINEAR_DRAWS = "damp.draws", 4
"""Draws of views in linear mode where the recipe makes one for every epoch: with many short epochs that would be too many."""


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def recipe_file(name: str) -> Path:
    """The file of a recipe: one that comes with the package, or a path to one's own."""
    path = FOLDER / f"{name}.yaml" if name in recipe_names() else Path(name)
    if name and path.is_dir():
        inside = f"; a run's settings are in its {path / 'config.yaml'}" if (path / "config.yaml").is_file() else ""
        raise UserError(f"--recipe {name}: this is a folder; give a recipe's name or file{inside}")
    if not path.is_file():
        raise UserError(
            f"--recipe {name}: no such recipe or file{did_you_mean(name, recipe_names())}; known are {', '.join(recipe_names())}"
        )
    return path


def options_for(method: Method) -> list[Option]:
    """The options of a run with that method: those of every run, and its own."""
    return [option for option in _common_options() if option.key not in SOMETIMES] + own_options(method)


def own_options(method: Method) -> list[Option]:
    """The options that not every method has."""
    own = [option for section, kind in method.sections.items() for option in options_of(section, kind)]
    return own + [option for option in _common_options() if option.key in SOMETIMES and SOMETIMES[option.key](method)]


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
    lines: dict[str, int] = {}
    for entry in entries(path):
        key, where = RENAMED.get(entry.key, entry.key), f"{path}, line {entry.line}"
        inside, choices = key, known
        if key.startswith((f"{OWN}.", f"{PUBLISHED}.")):
            _, name, inside = (*key.split(".", 2), "")[:3]
            choices = _known_of(name, where)
        if key in (OWN, PUBLISHED) or not inside or any(name.startswith(f"{inside}.") for name in choices):
            if entry.text == "":
                continue  # a section with nothing in it
            raise UserError(f"{where}: {key} must be a mapping of options to values, not {_shown(entry)}")
        if inside not in choices:
            raise UserError(f"{where}: unknown key {key}{did_you_mean(inside, choices)}")
        if key in lines:  # with and without dots, or under an older name
            raise UserError(f"{where}: {key} stands on line {lines[key]} already; keep one of them")
        lines[key] = entry.line
        values[key] = _read(entry, choices[inside].kind, f"{where}: {key}")
    if "recipe" not in values and "method" in values:  # the record of a run is read even if its method is no more
        _known_of(values["method"], f"{path}, line {lines['method']}")
    return values


def _read(entry: Entry, kind: Any, what: str) -> Any:
    """The value of an option of that type; `what` names it in messages."""
    try:
        if entry.text is None or (kind is str and not entry.text):
            raise ValueError
        return read_value(entry.text, kind)
    except ValueError:
        raise UserError(f"{what} must be {describe(kind)}, not {_shown(entry)}") from None


def _shown(entry: Entry) -> str:
    """What stands there, for a message."""
    if not entry.text:
        return "a list" if entry.text is None else "an empty value"
    return repr(entry.text if len(entry.text) <= 60 else f"{entry.text[:60]}...")


def _known_of(name: str, where: str) -> dict[str, Option]:
    """What a recipe may set for the method called `name` alone: all that has a section."""
    try:
        return {option.key: option for option in options_for(find_method(name)) if "." in option.key}
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def settings(values: Mapping[str, Any], method: str, protocol: str, said: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a recipe's `values` say for a method: those for all, those for it alone, and those that it was published with.

    `said` is what the user says, of which the mode of training counts here: it brings defaults of its own.
    """
    return _in_mode(_of_method(values, method, protocol), said or {})


def _in_mode(values: dict[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """The values with those that are usual in the mode: under a recipe made for it, over one made for another."""
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
    """The mode that some values ask for; features leave no choice."""
    return values.get(MODE) or ("linear" if _has_features(values) else None)


def _has_features(values: Mapping[str, Any]) -> bool:
    return values.get(FEATURES) not in (None, "null")


def _of_method(values: Mapping[str, Any], method: str, protocol: str) -> dict[str, Any]:
    plain = {key: value for key, value in values.items() if not key.startswith((f"{OWN}.", f"{PUBLISHED}."))}
    if "recipe" in plain:  # the configuration of a run, in which all this has been decided
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
    """The beginnings of the keys that a recipe has for a method alone; a later one counts more."""
    places = (OWN, PUBLISHED) if protocol == "published" else (OWN,)
    return [f"{place}.{name}." for place in places for name in _names_of(method)]


def _names_of(method: str) -> list[str]:
    """The names under which a recipe may have settings of a method; a later one counts more.

    What is set for `ll-r` holds for `boostlu+ll-r`, and what is set for `em-apl` for `em-apl+apl`, which is the same.
    """
    head, _, rest = method.partition("+")
    parts = find_method(method).parts
    same = [known.name for known in METHODS.values() if known.parts == parts]
    return [*(_names_of(rest) if head in HEADS else []), *same, method]


def recipe_text(values: Mapping[str, Any], *remarks: str) -> str:
    """A recipe file that sets nested values, with remarks at its head."""
    head = "".join(f"# {remark}\n" for remark in remarks)
    return f"{head}\n{yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)}"


def build_config(recipe: str, method: str, values: Mapping[str, Any]) -> Config:
    """The configuration from key -> value (what is not in it has its default, what the method does not have is left out)."""
    found = find_method(method)
    merged = overlay(options_for(found), values)

    def filled(section: str, kind: type[Any]) -> Any:
        return kind(**section_values(merged, section))

    return Config(
        recipe=recipe,
        method=found,
        run=RunOptions(**{f.name: merged[f.name] for f in fields(RunOptions) if f.name in merged}),
        engine=EngineOptions(**{f.name: merged[f.name] for f in fields(EngineOptions)}),
        **{name: filled(name, kind) for name, kind in SECTIONS.items()},
        teacher=filled("teacher", TeacherOptions),
        loss=filled("loss", found.loss.options),
        source=filled(found.source.name, found.source.options),
        head=None if found.head is None else filled(found.head.name, found.head.options),
    )


def config_from(path: Path, recipe: str, method: str, values: Mapping[str, Any], said: Mapping[str, Any]) -> Config:
    """The configuration from a recipe's `values` for the method and what is `said` instead; a wrong value is a UserError.

    If the recipe is wrong whatever is said, that tells the line in its file, `path`.
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
        place, key = (f"{path}, line {lines[keys[-1]]}", keys[-1]) if keys else (path, error.option)  # or it has its default
        raise UserError(f"{place}: {key} {error.wrong}") from None


def _out_of_range(recipe: str, method: str, values: Mapping[str, Any]) -> OptionError | None:
    """What is wrong with the recipe by itself, if anything."""
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
    """The options with the recipe's values as their defaults, so that --help shows what would be used."""
    return [replace(option, default=values.get(option.key, option.default)) for option in options]
