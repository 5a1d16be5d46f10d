"""The rows of a CSV, TSV or JSONL file, with the lines they are on."""

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path

from aevlp.data.classes import some, text_of
from aevlp.errors import UserError

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".jsonl")


@dataclass(frozen=True)
class Row:
    """One row: what each column holds. A JSONL field may be anything that JSON can say, a CSV field is text."""

    line: int
    cells: dict[str, object]


def columns_and_rows(file: Path) -> tuple[list[str], list[Row]]:
    """The column names in order of appearance, and the rows; blank lines are skipped, surrounding spaces trimmed."""
    suffix = file.suffix.lower()
    return _from_jsonl(file) if suffix == ".jsonl" else _from_csv(file, DELIMITERS[suffix])


def _from_csv(file: Path, delimiter: str) -> tuple[list[str], list[Row]]:
    reader = csv.reader(io.StringIO(text_of(file), newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    header: list[str] | None = None
    rows = []
    try:
        for record in reader:
            fields = [field.strip() for field in record]
            if not any(fields):
                continue
            if header is None:
                header = fields
                _refuse_twice(header, file, reader.line_num)
                continue
            if len(fields) > len(header):
                raise UserError(
                    f"{file}, line {reader.line_num}: {len(fields)} fields under {len(header)} columns; "
                    "separate several labels by ';', or quote a field that has a comma in it"
                )
            # A short row: its last fields are empty. A column without a name (an index that a tool wrote) says nothing.
            cells: dict[str, object] = {name: field for name, field in zip(header, fields, strict=False) if name}
            rows.append(Row(reader.line_num, cells))
    except csv.Error as error:
        raise UserError(f"{file}, line {reader.line_num}: not a valid table ({error}); check the quotes") from None
    return [name for name in header or [] if name], rows


def _refuse_twice(header: list[str], file: Path, line: int) -> None:
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise UserError(f"{file}, line {line}: two columns have the same name ({some(twice)}); rename or remove one")


def _from_jsonl(file: Path) -> tuple[list[str], list[Row]]:
    columns: dict[str, None] = {}  # a dict keeps the order
    rows = []
    # Not splitlines(): a JSON text may hold other line separators than "\n".
    for number, line in enumerate(text_of(file).split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            what = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "nested too deep"
            raise UserError(f"{file}, line {number}: not valid JSON ({what}); write one object per line") from None
        if not isinstance(record, dict):
            raise UserError(f'{file}, line {number}: not a JSON object; write one like {{"image": ..., "labels": [...]}}')
        cells = {name.strip(): value for name, value in record.items()}
        columns.update(dict.fromkeys(name for name in cells if name))
        rows.append(Row(number, cells))
    return list(columns), rows
