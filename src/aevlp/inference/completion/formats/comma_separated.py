"""A table with a row per image, itself an image set that aevlp reads; opens in a spreadsheet.

| column | holds |
| --- | --- |
| image | path, relative to the file |
| split | train, val or test |
| labels | labels that were given, separated by `;` |
| accepted | labels that a person has confirmed |
| negatives | labels that the image does not have: rejected by a person, or given as absent |
| proposed | labels that it probably has, with their confidence: `dog=0.93;cat=0.81` |
| proposed_negatives | labels that it probably does not have, likewise |
| candidates | labels that are not sure enough to be proposed, but worth a look, likewise |
| doubted | those of `labels` and `accepted` that every predictor doubts, likewise |
| complete | 1 if a person has looked at every class |
| answers | who accepted or rejected a label, and when: `dog=ann@2026-01-31T10:00:00+00:00`; without a name: complete |
| witnesses | probability by each predictor of the labels with a confidence: `teacher:dog=0.9;model:dog=0.95` |
"""

import codecs
import csv
import re
from collections.abc import Iterable
from typing import IO
from urllib.parse import quote

from aevlp.core.errors import UserError
from aevlp.core.spreadsheets import path_cell, refuse_formulas
from aevlp.data.records import LabelRecord
from aevlp.inference.completion.formats.encoding import by_predictor, confidences, pairs
from aevlp.inference.completion.formats.registry import LabelFile, register_format
from aevlp.inference.completion.formats.tables import check_classes, table_name, with_classes

COLUMNS = (
    *("image", "split", "labels", "accepted", "negatives", "proposed", "proposed_negatives", "candidates", "doubted"),
    *("complete", "answers", "witnesses"),
)
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
    refuse_formulas(file.classes, f"--out {file.out}")
    check_classes(file)


@register_format("csv", ".csv", check=check)
def write(file: LabelFile, records: Iterable[LabelRecord], stream: IO[bytes]) -> None:
    """Write the header and a row per image."""
    # File names need not be UTF-8: their bytes are written as they are.
    text = codecs.getwriter("utf-8")(stream, "surrogateescape")
    plain = csv.writer(text, lineterminator="\n")
    quoted = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    plain.writerow(COLUMNS)
    for record in with_classes(file, records):
        # csv does not quote a carriage return by default, which would end the row.
        (quoted if "\r" in record.name else plain).writerow(_row(file, record))


def _row(file: LabelFile, record: LabelRecord) -> list[str]:
    by_kind = (record.proposed, record.proposed_absent, record.candidates, record.doubted)
    witnesses = {
        f"{who}:{name}": p for scores in by_kind for name, score in scores.items() for who, p in by_predictor(score).items()
    }
    return [
        path_cell(table_name(file, record.name)),
        record.split,
        *(";".join(names) for names in (record.observed, record.accepted, record.rejected)),
        *(pairs(confidences(scores)) for scores in by_kind),
        "1" if record.is_complete else "",
        ";".join(f"{name}={_escaped(answer.who)}@{_escaped(answer.at)}" for name, answer in record.answers.items()),
        pairs(witnesses),
    ]


def _escaped(text: str) -> str:
    """Percent-encode the characters that separate, or that readers trim."""
    return re.sub(r"[%;|=\s]", lambda found: quote(found[0]), text)
