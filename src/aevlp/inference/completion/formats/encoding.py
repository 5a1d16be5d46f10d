"""Values as the formats write them: JSON that every reader accepts, and labels with their probabilities."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aevlp.data.records import LabelRecord, Score


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


def scored(record: LabelRecord) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """Yield name, confidence and attributes of each of the image's positives.

    The confidence of a given or accepted label is 1. The attributes are the `state` (observed, accepted or proposed), who
    answered (`by`) and when (`at`) where it is known, the probability by each predictor, and `doubted`, the confidence of a
    confirmed label that every predictor doubts.
    """
    for state, names in (("observed", record.observed), ("accepted", record.accepted)):
        for name in names:
            doubt = record.doubted.get(name)
            attributes = {} if doubt is None else {"doubted": rounded(doubt.confidence), **by_predictor(doubt)}
            yield name, 1.0, {"state": state, **answered(record, name), **attributes}
    for name, score in record.proposed.items():
        yield name, rounded(score.confidence), {"state": "proposed", **by_predictor(score)}


def answered(record: LabelRecord, label: str) -> dict[str, str]:
    """Return who answered about a label, and when: `{"by": "ann", "at": "2026-01-31T10:00:00+00:00"}`; empty if not known."""
    answer = record.answers.get(label)
    return {} if answer is None else {"by": answer.who, "at": answer.at}


def plain_scores(scores: Mapping[str, Score]) -> dict[str, dict[str, float]]:
    """Return name -> `confidence` and the probability by each predictor."""
    return {name: {"confidence": rounded(score.confidence), **by_predictor(score)} for name, score in scores.items()}


def plain_answers(record: LabelRecord) -> dict[str, dict[str, str]]:
    """Return name -> `who` and `at` of each answer; the empty name stands for the completeness of the image."""
    return {name: {"who": answer.who, "at": answer.at} for name, answer in record.answers.items()}
