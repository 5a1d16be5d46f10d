"""The rows of a CSV, TSV or JSONL file."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from aevlp.core.errors import UserError, first_few
from aevlp.data.files import read_lines

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".jsonl")


@dataclass(frozen=True)
class TableRow:
    """One row of a file: its line number and the value of each column, text in a CSV, any JSON value in a JSONL."""

    line: int
    cells: dict[str, object]


class TableRows:
    """The rows of a CSV, TSV or JSONL file, read one at a time; blank lines are skipped, surrounding spaces trimmed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.columns: dict[str, None] = {}
        """The column names met so far, in order: a CSV has them all before its first row."""

    def __iter__(self) -> Iterator[TableRow]:
        suffix = self.file.suffix.lower()
        return self._from_jsonl() if suffix == ".jsonl" else self._from_csv(DELIMITERS[suffix])

    def all_columns(self) -> list[str]:
        """Return the column names: a CSV has them in its first line, the objects of a JSONL anywhere."""
        for _ in self:
            if self.file.suffix.lower() in DELIMITERS:
                break
        return list(self.columns)

    def _from_csv(self, delimiter: str) -> Iterator[TableRow]:
        reader = csv.reader(read_lines(self.file, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
        header: list[str] | None = None
        try:
            for record in reader:
                fields = [field.strip() for field in record]
                where = f"{self.file}, line {reader.line_num}"
                if not any(fields):
                    continue
                if header is None:
                    header = fields
                    self.columns.update(dict.fromkeys(name for name in header if name))
                    if twice := [name for name in self.columns if header.count(name) > 1]:
                        raise UserError(f"{where}: two columns have the same name ({first_few(twice)}); rename or remove one")
                    continue
                if len(fields) > len(header):
                    raise UserError(
                        f"{where}: {len(fields)} fields under {len(header)} columns; "
                        "separate several labels by ';', or quote a field that has a comma in it"
                    )
                # The last fields of a short row are empty. A column without a name (an index that a tool wrote) is ignored.
                yield TableRow(reader.line_num, {name: field for name, field in zip(header, fields, strict=False) if name})
        except csv.Error as error:
            raise UserError(f"{self.file}, line {reader.line_num}: not a valid table ({error}); check the quotes") from None

    def _from_jsonl(self) -> Iterator[TableRow]:
        # A JSON text may hold other line separators than "\n".
        for number, line in enumerate(read_lines(self.file, newline="\n"), 1):
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
            yield TableRow(number, cells)
