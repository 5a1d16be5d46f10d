"""An object per image and line, itself an image set that aevlp reads.

`image` (relative to the file), `split`, `labels` and `negatives` as in a CSV, and as lists; `observed`, a list; `proposed`,
`proposed_negatives` and `doubted`: name -> `confidence`, and what each witness said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import IO, Any

from aevlp.inference.completion.formats.labels import negatives, positives
from aevlp.inference.completion.formats.registry import register_format
from aevlp.inference.completion.formats.tables import check_classes, named, with_classes
from aevlp.inference.completion.formats.target import Target
from aevlp.inference.completion.formats.text import as_json, rounded, said
from aevlp.inference.completion.records import Completed, Opinion


@register_format("jsonl", ".jsonl", check=check_classes)
def write(target: Target, records: Iterable[Completed], file: IO[bytes]) -> None:
    """Writes a line per image."""
    file.writelines(as_json(_object(target, record)) + b"\n" for record in with_classes(target, records))


def _object(target: Target, record: Completed) -> dict[str, Any]:
    return {
        "image": named(target, record.name),
        "split": record.split,
        "labels": positives(record),
        "negatives": negatives(record),
        "observed": record.observed,
        "proposed": _opinions(record.proposed),
        "proposed_negatives": _opinions(record.proposed_absent),
        "doubted": _opinions(record.doubted),
    }


def _opinions(opinions: Mapping[str, Opinion]) -> dict[str, dict[str, float]]:
    return {name: {"confidence": rounded(opinion.confidence), **said(opinion)} for name, opinion in opinions.items()}
