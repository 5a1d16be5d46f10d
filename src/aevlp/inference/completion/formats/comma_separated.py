"""A table with a row per image, itself an image set that aevlp reads; opens in a spreadsheet.

| column | holds |
| --- | --- |
| image | path, relative to the file |
| split | train, val or test |
| labels | all labels that the image has, given or proposed, separated by `;` |
| negatives | all labels that it does not have, likewise |
| observed | those of `labels` that were given |
| proposed | the others, with their confidence: `dog=0.93;cat=0.81` |
| proposed_negatives | those of `negatives` that were not given, likewise |
| doubted | those of `observed` that every predictor doubts, likewise |
| witnesses | probability by each predictor of the labels in the last three columns: `teacher:dog=0.9;model:dog=0.95` |
"""

import codecs
import csv
from collections.abc import Iterable
from typing import IO

from aevlp.core.errors import UserError
from aevlp.inference.completion.formats.encoding import by_predictor, confidences, pairs
from aevlp.inference.completion.formats.registry import LabelFile, register_format
from aevlp.inference.completion.formats.tables import check_classes, table_name, with_classes
from aevlp.inference.completion.records import Completed

COLUMNS = ("image", "split", "labels", "negatives", "observed", "proposed", "proposed_negatives", "doubted", "witnesses")
SEPARATORS = ";|"
"""Characters that separate names in a cell when a table is read."""


def check(file: LabelFile) -> None:
    """Refuse class names that a cell cannot hold."""
    for name in file.classes:
        if inside := [separator for separator in SEPARATORS if separator in name]:
            raise UserError(
                f"--out {file.out}: the class name '{name}' has a '{inside[0]}' in it, which separates names in a CSV; "
                "write a .jsonl file instead"
            )
    check_classes(file)


@register_format("csv", ".csv", check=check)
def write(file: LabelFile, records: Iterable[Completed], stream: IO[bytes]) -> None:
    """Write the header and a row per image."""
    # File names need not be UTF-8: their bytes are written as they are.
    text = codecs.getwriter("utf-8")(stream, "surrogateescape")
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(COLUMNS)
    for record in with_classes(file, records):
        # csv does not quote a carriage return by default, which would end the row.
        (quoted if "\r" in record.name else plain).writerow(_row(file, record))


def _row(file: LabelFile, record: Completed) -> list[str]:
    scores = {**record.proposed, **record.proposed_absent, **record.doubted}
    return [
        table_name(file, record.name),
        record.split,
        ";".join(record.positives),
        ";".join(record.negatives),
        ";".join(record.observed),
        pairs(confidences(record.proposed)),
        pairs(confidences(record.proposed_absent)),
        pairs(confidences(record.doubted)),
        pairs({f"{who}:{name}": p for name, score in scores.items() for who, p in by_predictor(score).items()}),
    ]
