"""The rows of a CSV, TSV or JSONL file, with the lines they are on."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.data.classes import lines_of, some

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".jsonl")


@dataclass(frozen=True)
class Row:
    """One row: what each column holds. A JSONL field may be anything that JSON can say, a CSV field is text."""

    line: int
    cells: dict[str, object]


class Rows:
    """The rows of a file, read as they are asked for; blank lines are skipped, surrounding spaces trimmed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.columns: dict[str, None] = {}
        """The names met so far, in order: a CSV has them all before its first row."""

    def __iter__(self) -> Iterator[Row]:
        suffix = self.file.suffix.lower()
        return self._from_jsonl() if suffix == ".jsonl" else self._from_csv(DELIMITERS[suffix])

    def _from_csv(self, delimiter: str) -> Iterator[Row]:
        reader = csv.reader(lines_of(self.file, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
        header: list[str] | None = None
        try:
            for record in reader:
                fields = [field.strip() for field in record]
                if not any(fields):
                    continue
                if header is None:
                    header = fields
                    _refuse_twice(header, self.file, reader.line_num)
                    self.columns.update(dict.fromkeys(name for name in header if name))
                    continue
                if len(fields) > len(header):
                    raise UserError(
                        f"{self.file}, line {reader.line_num}: {len(fields)} fields under {len(header)} columns; "
                        "separate several labels by ';', or quote a field that has a comma in it"
                    )
                # A short row: its last fields are empty. A column without a name (an index that a tool wrote) says nothing.
                yield Row(reader.line_num, {name: field for name, field in zip(header, fields, strict=False) if name})
        except csv.Error as error:
            raise UserError(f"{self.file}, line {reader.line_num}: not a valid table ({error}); check the quotes") from None

    def _from_jsonl(self) -> Iterator[Row]:
        # A JSON text may hold other line separators than "\n".
        for number, line in enumerate(lines_of(self.file, newline="\n"), 1):
            if not line.strip():
                continue
            where = f"{self.file}, line {number}"
            try:
                record = json.loads(line.removesuffix("\n"))
            except (json.JSONDecodeError, RecursionError) as error:
                what = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "nested too deep"
                raise UserError(f"{where}: not valid JSON ({what}); write one object per line") from None
            if not isinstance(record, dict):
                raise UserError(f'{where}: not a JSON object; write one like {{"image": ..., "labels": [...]}}')
            cells = {name.strip(): value for name, value in record.items()}
            self.columns.update(dict.fromkeys(name for name in cells if name))
            yield Row(number, cells)


def columns_and_rows(file: Path) -> tuple[list[str], list[Row]]:
    """The column names in order of appearance, and all rows."""
    rows = Rows(file)
    found = list(rows)
    return list(rows.columns), found


def _refuse_twice(header: list[str], file: Path, line: int) -> None:
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise UserError(f"{file}, line {line}: two columns have the same name ({some(twice)}); rename or remove one")
