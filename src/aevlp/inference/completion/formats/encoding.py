"""Values as the formats write them: JSON that every reader accepts, and labels with their probabilities."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aevlp.inference.completion.records import Completed, Score


def as_json(value: Any) -> bytes:
    """Return the value as one line of JSON, always valid UTF-8."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:  # a file name that is not UTF-8: Python reads its escape codes back as the same name
        return json.dumps(value, allow_nan=False).encode()


def separated(items: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the items of a JSON list or object, one per line, with the commas between them."""
    for index, item in enumerate(items):
        yield b",\n" + item if index else item


def rounded(probability: float) -> float:
    """Round to the six digits that a float32 holds; more would be noise."""
    return float(f"{probability:.6g}")


def by_predictor(score: Score) -> dict[str, float]:
    """Return each predictor's probability: `{"teacher": 0.9, "model": 0.95}`."""
    return {name: rounded(probability) for name, probability in score.predictors.items()}


def pairs(probabilities: Mapping[str, float]) -> str:
    """Return `dog=0.93;cat=0.81`, in the order given."""
    return ";".join(f"{name}={probability:.6g}" for name, probability in probabilities.items())


def confidences(scores: Mapping[str, Score]) -> dict[str, float]:
    """Return label name -> confidence of all predictors together."""
    return {name: score.confidence for name, score in scores.items()}


def scored(record: Completed) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """Yield name, confidence and attributes of each of the image's positives.

    The confidence of a given label is 1. The attributes are `observed` (true for a given label), the probability by each
    predictor, and `doubted`, the confidence of a given label that every predictor doubts.
    """
    for name in record.observed:
        doubt = record.doubted.get(name)
        attributes = {} if doubt is None else {"doubted": rounded(doubt.confidence), **by_predictor(doubt)}
        yield name, 1.0, {"observed": True, **attributes}
    for name, score in record.proposed.items():
        yield name, rounded(score.confidence), {"observed": False, **by_predictor(score)}
