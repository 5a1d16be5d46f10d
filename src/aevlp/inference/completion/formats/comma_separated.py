"""A table with a row per image, itself an image set that aevlp reads; opens in a spreadsheet.

| column | holds |
| --- | --- |
| image | path, relative to the file |
| split | train, val or test |
| labels | all that the image has, given or proposed, separated by `;` |
| negatives | all that it does not have, likewise |
| observed | those of `labels` that were given |
| proposed | the others, with the probability that the image has them: `dog=0.93;cat=0.81` |
| proposed_negatives | those of `negatives` that were not given, likewise |
| doubted | those of `observed` that all witnesses doubt, likewise |
| witnesses | what each said of the labels of the last three columns: `teacher:dog=0.9;model:dog=0.95` |
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterable
from typing import IO

from aevlp.core.errors import UserError
from aevlp.inference.completion.formats.labels import negatives, positives
from aevlp.inference.completion.formats.registry import register_format
from aevlp.inference.completion.formats.tables import check_classes, named, with_classes
from aevlp.inference.completion.formats.target import Target
from aevlp.inference.completion.formats.text import confidences, pairs, said
from aevlp.inference.completion.records import Completed

COLUMNS = ("image", "split", "labels", "negatives", "observed", "proposed", "proposed_negatives", "doubted", "witnesses")
SEPARATORS = ";|"
"""What separates names in a cell, where a table is read."""


def check(target: Target) -> None:
    """Refuses class names that a cell cannot hold."""
    for name in target.classes:
        if inside := [separator for separator in SEPARATORS if separator in name]:
            raise UserError(
                f"--out {target.out}: the class name '{name}' has a '{inside[0]}' in it, which separates names in a CSV; "
                "write a .jsonl file instead"
            )
    check_classes(target)


@register_format("csv", ".csv", check=check)
def write(target: Target, records: Iterable[Completed], file: IO[bytes]) -> None:
    """Writes the header and a row per image."""
    # File names need not be UTF-8: their bytes are written as they are.
    text = codecs.getwriter("utf-8")(file, "surrogateescape")
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(COLUMNS)
    for record in with_classes(target, records):
        # Left to itself, the writer does not quote a carriage return, which then ends the row.
        (quoted if "\r" in record.name else plain).writerow(_row(target, record))


def _row(target: Target, record: Completed) -> list[str]:
    return [
        named(target, record.name),
        record.split,
        ";".join(positives(record)),
        ";".join(negatives(record)),
        ";".join(record.observed),
        pairs(confidences(record.proposed)),
        pairs(confidences(record.proposed_absent)),
        pairs(confidences(record.doubted)),
        _witnesses(record),
    ]


def _witnesses(record: Completed) -> str:
    opinions = {**record.proposed, **record.proposed_absent, **record.doubted}
    return pairs({f"{who}:{name}": value for name, opinion in opinions.items() for who, value in said(opinion).items()})
