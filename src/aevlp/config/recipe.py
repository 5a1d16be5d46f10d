"""Recipe files: YAML with other defaults for the options of a run, read with line numbers, so that errors can name the line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from aevlp.config.methods import find_method
from aevlp.config.run_options import all_options, options_for
from aevlp.core.errors import UserError, did_you_mean
from aevlp.core.options import Option, describe, read_value
from aevlp.core.yaml_lines import line_of, read_nodes

FOLDER = Path(__file__).parent / "recipes"
RENAMED = {"loss.expected_positives": "train.expected_positives"}  # in recipes and runs of 0.2.0
OWN, PUBLISHED = "methods", "published"
"""Sections of a recipe with defaults for single methods: used always, and with `--protocol published`."""


def recipe_names() -> list[str]:
    """Return the names of the recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def recipe_file(name: str) -> Path:
    """Return the file of a recipe: one that comes with the package, or the user's own."""
    path = FOLDER / f"{name}.yaml" if name in recipe_names() else Path(name)
    if name and path.is_dir():
        inside = f"; a run's settings are in its {path / 'config.yaml'}" if (path / "config.yaml").is_file() else ""
        raise UserError(f"--recipe {name}: this is a folder; give a recipe's name or file{inside}")
    if not path.is_file():
        raise UserError(
            f"--recipe {name}: no such recipe or file{did_you_mean(name, recipe_names())}; known are {', '.join(recipe_names())}"
        )
    return path


def read_recipe(path: Path) -> dict[str, Any]:
    """Return key -> value for everything that a recipe file sets, checked against the known options.

    A recipe may set options of several methods; a run uses those of its own. Settings for a single method stand under
    `methods: NAME:` and `published: NAME:`; `aevlp.config.defaults` says when they apply.
    """
    known = all_options()
    # The configuration of a run records its recipe and method.
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
    if "recipe" not in values and "method" in values:  # a run's record is read even if its method no longer exists
        _known_of(values["method"], f"{path}, line {lines['method']}")
    return values


def _read(entry: Entry, kind: Any, what: str) -> Any:
    """Return the value of an option of that type; `what` names it in messages."""
    try:
        if entry.text is None or (kind is str and not entry.text):
            raise ValueError
        return read_value(entry.text, kind)
    except ValueError:
        raise UserError(f"{what} must be {describe(kind)}, not {_shown(entry)}") from None


def _shown(entry: Entry) -> str:
    """Return the value as a message shows it."""
    if not entry.text:
        return "a list" if entry.text is None else "an empty value"
    return repr(entry.text if len(entry.text) <= 60 else f"{entry.text[:60]}...")


def _known_of(name: str, where: str) -> dict[str, Option]:
    """Return the options that a recipe may set for one method alone: those with a section."""
    try:
        return {option.key: option for option in options_for(find_method(name)) if "." in option.key}
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def recipe_text(values: Mapping[str, Any], *remarks: str) -> str:
    """Return the text of a recipe file with these nested values, and remarks at its head."""
    head = "".join(f"# {remark}\n" for remark in remarks)
    return f"{head}\n{yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)}"


@dataclass(frozen=True)
class Entry:
    """A key with dots, the text of its value (None: a list) and its line."""

    key: str
    text: str | None
    line: int


def entries(path: Path) -> list[Entry]:
    """Return everything that a file sets, in order. A repeated key and an empty file are refused."""
    root = read_nodes(path)
    if root is None:
        raise UserError(f"{path}: there is nothing in it; a recipe sets options (section: key: value), see aevlp train --help")
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else repr(root.value)[:60]
        raise UserError(f"{path}, line {line_of(root)}: a recipe must be a mapping of keys to values, not {kind}")
    return list(_walk(root, "", path))


def _walk(node: yaml.Node, key: str, path: Path) -> Iterator[Entry]:
    if isinstance(node, yaml.ScalarNode):
        yield Entry(key, node.value, line_of(node))
    elif not isinstance(node, yaml.MappingNode):
        yield Entry(key, None, line_of(node))
    else:
        seen: dict[str, int] = {}
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise UserError(f"{path}, line {line_of(name)}: a key must be a word, not a list or a mapping")
            inner = f"{key}.{name.value}" if key else name.value
            if name.value in seen:  # YAML would take the last
                before = seen[name.value]
                raise UserError(f"{path}, line {line_of(name)}: {inner} stands on line {before} already; keep one of them")
            seen[name.value] = line_of(name)
            yield from _walk(value, inner, path)
