"""An object per image and line, itself an image set that aevlp reads.

`image` (relative to the file), `split`, and the columns of a CSV: `labels`, `accepted` and `negatives` are lists; `proposed`,
`proposed_negatives`, `candidates` and `doubted` map a name to its `confidence` and the probability by each predictor; `complete`
is true or false; `answers` maps a name to `who` and `at`, the empty name standing for the completeness of the image.
"""

from collections.abc import Iterable
from typing import IO, Any

from aevlp.data.records import LabelRecord
from aevlp.inference.completion.formats.encoding import as_json, plain_answers, plain_scores
from aevlp.inference.completion.formats.registry import LabelFile, register_format
from aevlp.inference.completion.formats.tables import check_classes, table_name, with_classes


@register_format("jsonl", ".jsonl", check=check_classes)
def write(file: LabelFile, records: Iterable[LabelRecord], stream: IO[bytes]) -> None:
    """Write a line per image."""
    stream.writelines(as_json(_object(file, record)) + b"\n" for record in with_classes(file, records))


def _object(file: LabelFile, record: LabelRecord) -> dict[str, Any]:
    return {
        "image": table_name(file, record.name),
        "split": record.split,
        "labels": record.observed,
        "accepted": record.accepted,
        "negatives": record.rejected,
        "proposed": plain_scores(record.proposed),
        "proposed_negatives": plain_scores(record.proposed_absent),
        "candidates": plain_scores(record.candidates),
        "doubted": plain_scores(record.doubted),
        "complete": record.is_complete,
        "answers": plain_answers(record),
    }
