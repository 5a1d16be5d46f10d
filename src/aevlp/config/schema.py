"""The JSON schema of recipe files, by which an editor completes keys, shows their help and marks mistakes."""

from types import NoneType
from typing import Any, Literal, get_args, get_origin

from aevlp.config.methods import METHODS
from aevlp.config.recipe import OWN, PUBLISHED, recipe_names
from aevlp.config.run_options import every_option
from aevlp.core.options import Option, Range, choices_of, show_value

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES = {int: "integer", float: "number", bool: "boolean", str: "string", NoneType: "null"}
Schema = dict[str, Any]


def recipe_schema() -> Schema:
    """Return the schema of a recipe. Options of all methods are allowed, as a recipe may set them for several."""
    by_key: dict[str, list[Option]] = {}
    for option in every_option():
        by_key.setdefault(option.key, []).append(option)
    top: dict[str, Schema] = {}
    sections: dict[str, dict[str, Schema]] = {}
    for key, options in by_key.items():
        section, dot, name = key.rpartition(".")
        (sections.setdefault(section, {}) if dot else top)[name] = _values(options)
    settings = {name: _mapping(keys) for name, keys in sections.items()}
    of_methods = {"type": ["object", "null"], "additionalProperties": {"$ref": "#/$defs/settings"}}
    method = {"type": "string", "description": "What to train.", "examples": list(METHODS)}
    recipe = {"type": "string", "description": "The recipe that a run was started with.", "examples": recipe_names()}
    return {
        "$schema": DIALECT,
        "title": "A recipe of aevlp",
        **_mapping(
            {
                "method": method,
                "recipe": recipe,
                **top,
                **settings,
                OWN: {"description": "Defaults for single methods, by their names.", **of_methods},
                PUBLISHED: {"description": "The same with --protocol published.", **of_methods},
            }
        ),
        "$defs": {"settings": _mapping(settings)},
    }


def _mapping(properties: dict[str, Schema]) -> Schema:
    return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}


def _values(options: list[Option]) -> Schema:
    """Return the schema of one key; losses and sources that share it may differ in its range and help."""
    alternatives: list[Schema] = []
    for option in options:
        for kind in choices_of(option.kind):
            if (found := _value(kind, option.range)) not in alternatives:
                alternatives.append(found)
    helps = " / ".join(
        dict.fromkeys(f"{option.help} ({option.values}; default: {show_value(option.default)})" for option in options)
    )
    return {"description": helps, **(alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives})}


def _value(kind: Any, allowed: Range | None) -> Schema:
    """Return the schema of one type of value, within a range if it is a number."""
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    schema: Schema = {"type": TYPES[kind]}
    if kind in (int, float) and allowed is not None:
        if allowed.low is not None:
            schema["exclusiveMinimum" if allowed.excludes_low else "minimum"] = allowed.low
        if allowed.high is not None:
            schema["exclusiveMaximum" if allowed.excludes_high else "maximum"] = allowed.high
    return schema
