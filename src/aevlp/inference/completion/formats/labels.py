"""The labels of an image, as the formats put them together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aevlp.inference.completion.formats.text import rounded, said
from aevlp.inference.completion.records import Completed


def positives(record: Completed) -> tuple[str, ...]:
    """What the image has: the labels that were given, then the proposed ones."""
    return (*record.observed, *record.proposed)


def negatives(record: Completed) -> tuple[str, ...]:
    """What the image does not have: the labels that were given as absent, then the proposed ones."""
    return (*record.absent, *record.proposed_absent)


def scored(record: Completed) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """Name, confidence and attributes of each of `positives`.

    The confidence is 1 where the label was given. The attributes are `observed` (whether it was), what each witness said, and
    `doubted`, their probability, if it was given and all of them doubt it.
    """
    for name in record.observed:
        doubt = record.doubted.get(name)
        doubts = {} if doubt is None else {"doubted": rounded(doubt.confidence), **said(doubt)}
        yield name, 1.0, {"observed": True, **doubts}
    for name, opinion in record.proposed.items():
        yield name, rounded(opinion.confidence), {"observed": False, **said(opinion)}
