"""An object per image and line, itself an image set that aevlp reads.

`image` (relative to the file), `split`, `labels` and `negatives` as in a CSV, but as lists; `observed`, a list; `proposed`,
`proposed_negatives` and `doubted`: name -> `confidence`, and the probability by each predictor.
"""

from collections.abc import Iterable, Mapping
from typing import IO, Any

from aevlp.inference.completion.formats.encoding import as_json, by_predictor, rounded
from aevlp.inference.completion.formats.registry import LabelFile, register_format
from aevlp.inference.completion.formats.tables import check_classes, table_name, with_classes
from aevlp.inference.completion.records import Completed, Score


@register_format("jsonl", ".jsonl", check=check_classes)
def write(file: LabelFile, records: Iterable[Completed], stream: IO[bytes]) -> None:
    """Write a line per image."""
    stream.writelines(as_json(_object(file, record)) + b"\n" for record in with_classes(file, records))


def _object(file: LabelFile, record: Completed) -> dict[str, Any]:
    return {
        "image": table_name(file, record.name),
        "split": record.split,
        "labels": record.positives,
        "negatives": record.negatives,
        "observed": record.observed,
        "proposed": _scores(record.proposed),
        "proposed_negatives": _scores(record.proposed_absent),
        "doubted": _scores(record.doubted),
    }


def _scores(scores: Mapping[str, Score]) -> dict[str, dict[str, float]]:
    return {name: {"confidence": rounded(score.confidence), **by_predictor(score)} for name, score in scores.items()}
