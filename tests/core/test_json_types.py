"""The content of a file is what the code that uses it takes it for, or a line says where it is not."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from aevlp.core.json_types import from_json
from aevlp.core.options import Between


@dataclass(frozen=True)
class Point:
    x: float
    label: str | None = None


class Line(TypedDict):
    epoch: int
    note: NotRequired[str]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, float, 1.0),
        ([1, 2.5], tuple[float, ...], (1.0, 2.5)),
        ([1, "a"], tuple[int, str], (1, "a")),
        (None, float | None, None),
        ({"a": [1]}, dict[str, list[int]], {"a": [1]}),
        ({"x": 2}, Point, Point(2.0)),
        ([{"x": 2, "label": "a"}], tuple[Point, ...], (Point(2.0, "a"),)),
        ({"epoch": 1, "newer": [None]}, Line, {"epoch": 1, "newer": [None]}),
        (0.5, Annotated[float, Between(0, 1)], 0.5),
        ("a", Literal["a", "b"], "a"),
        ({"a": [{}]}, Any, {"a": [{}]}),
    ],
)
def test_what_fits_is_read(value, kind, expected):
    assert from_json(value, kind) == expected


@pytest.mark.parametrize(
    ("value", "kind", "says"),
    [
        (True, int, "it must be a whole number, not True"),
        (True, float, "it must be a finite number, not True"),
        (math.nan, float, "it must be a finite number, not nan"),
        (math.inf, float | None, "it must be a finite number, not inf"),
        (1.0, int, "it must be a whole number, not 1.0"),
        ("1", float, "it must be a finite number, not '1'"),
        (1, bool, "it must be true or false, not 1"),
        ("ab", list[str], "it must be a list, not 'ab'"),
        ([1], tuple[int, str], r"it must be a list of 2, not \[1\]"),
        ([1, "x"], list[int], "1 must be a whole number, not 'x'"),
        ({"a": {"b": "x"}}, dict[str, dict[str, int]], "a.b must be a whole number, not 'x'"),
        ([], dict[str, int], r"it must be a mapping, not \[\]"),
        ({}, Point, "x is missing"),
        ({"x": 1, "y": 2}, Point, "y is not known"),
        (5, Point, "it must be a mapping, not 5"),
        ({"note": "a"}, Line, "epoch is missing"),
        (5, Annotated[float, Between(0, 1)], "it must be from 0 to 1, not 5.0"),
        (["a"], Literal["a", "b"], r"it must be a or b, not \['a'\]"),
        ("x" * 100, int, "not 'x{39}...$"),
    ],
)
def test_what_does_not_fit_is_named(value, kind, says):
    with pytest.raises(ValueError, match=f"^{says}" if not says.startswith("not") else says):
        from_json(value, kind)
