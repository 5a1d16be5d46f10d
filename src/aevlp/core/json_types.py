"""JSON values as typed ones: the content of a file of ours is checked against the types of the code that uses it."""

import math
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from aevlp.core.options import Range


def from_json(value: Any, kind: Any, where: str = "") -> Any:
    """Return a JSON value as one of type `kind`; a ValueError names the first part that is something else.

    Types are None, bool, int, float, str, Any, Literal, Annotated with a Range, unions, list, tuple, dict with text as keys,
    dataclasses, and TypedDicts, which may have other keys too. Numbers are finite; lists become tuples where the type says so.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is NotRequired:
        return from_json(value, inner[0], where)
    if origin is Annotated:
        return _in_range(from_json(value, inner[0], where), next(a for a in inner[1:] if isinstance(a, Range)), where)
    if origin in (Union, UnionType):
        return None if value is None else from_json(value, _other_than_none(inner), where)
    if origin is Literal:
        return value if isinstance(value, str) and value in inner else _refuse(value, " or ".join(inner), where)
    if origin is dict:
        entries = value.items() if isinstance(value, dict) else _refuse(value, "a mapping", where)
        return {key: from_json(item, inner[1], _within(where, key)) for key, item in entries}
    if origin in (list, tuple):
        return origin(_items(value, origin, inner, where))
    if is_dataclass(kind) or is_typeddict(kind):
        return _record(value, kind, where)
    return _plain(value, kind, where)


def _plain(value: Any, kind: type, where: str) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    is_right = type(value) is kind and kind is not float
    words = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text", NoneType: "null"}
    return value if is_right else _refuse(value, words[kind], where)


def _items(value: Any, origin: type, inner: tuple[Any, ...], where: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        _refuse(value, "a list", where)
    if origin is tuple and inner[-1] is not Ellipsis:
        kinds = inner if len(value) == len(inner) else _refuse(value, f"a list of {len(inner)}", where)
    else:
        kinds = (inner[0],) * len(value)
    return [from_json(item, kind, _within(where, i)) for i, (item, kind) in enumerate(zip(value, kinds, strict=True))]


def _record(value: Any, kind: Any, where: str) -> Any:
    if not isinstance(value, dict):
        _refuse(value, "a mapping", where)
    hints = get_type_hints(kind, include_extras=True)
    is_open = is_typeddict(kind)
    needed = kind.__required_keys__ if is_open else {f.name for f in fields(kind) if f.default is MISSING}
    if missing := sorted(needed - value.keys()):
        raise ValueError(f"{_within(where, missing[0])} is missing")
    if not is_open and (unknown := sorted(value.keys() - hints.keys())):
        raise ValueError(f"{_within(where, unknown[0])} is not known")
    return kind(**{key: from_json(item, hints.get(key, Any), _within(where, key)) for key, item in value.items()})


def _in_range(value: Any, allowed: Range, where: str) -> Any:
    return value if value in allowed else _refuse(value, str(allowed), where)


def _other_than_none(kinds: tuple[Any, ...]) -> Any:
    (kind,) = (kind for kind in kinds if kind is not NoneType)
    return kind


def _within(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def _refuse(value: Any, wanted: str, where: str) -> Any:
    shown = repr(value)
    raise ValueError(f"{where or 'it'} must be {wanted}, not {shown if len(shown) <= 40 else f'{shown[:40]}...'}")
