"""Values as text: JSON that every reader takes, and labels with their probabilities."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aevlp.inference.completion.records import Opinion


def as_json(value: Any) -> bytes:
    """The value as one line of JSON, always valid UTF-8."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8: its escape codes come back as the same name in Python
        return json.dumps(value, allow_nan=False).encode()


def separated(items: Iterable[bytes]) -> Iterator[bytes]:
    """The items of a JSON list or object, a line each, with the commas between them."""
    for index, item in enumerate(items):
        yield b",\n" + item if index else item


def rounded(probability: float) -> float:
    """Six digits, which is what a float32 holds; more would be noise."""
    return float(f"{probability:.6g}")


def said(opinion: Opinion) -> dict[str, float]:
    """What each witness said: `{"teacher": 0.9, "model": 0.95}`."""
    return {witness: rounded(probability) for witness, probability in opinion.witnesses.items()}


def pairs(probabilities: Mapping[str, float]) -> str:
    """`dog=0.93;cat=0.81`, in their order."""
    return ";".join(f"{name}={probability:.6g}" for name, probability in probabilities.items())


def confidences(opinions: Mapping[str, Opinion]) -> dict[str, float]:
    """Name -> how sure all witnesses are together that the image has it."""
    return {name: opinion.confidence for name, opinion in opinions.items()}
