"""Table: a CSV, TSV or JSONL file, or a folder with `labels.csv` or `metadata.csv` (or the like) in it."""

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from aevlp.core.errors import UserError, first_few
from aevlp.data.addresses import missing_images
from aevlp.data.dataset import ImageTable
from aevlp.data.files import fixed_classes, read_lines
from aevlp.data.label_file import ParsedLabels
from aevlp.data.readers import DETECTED, ChosenColumns, Reader, register
from aevlp.data.records import LabelRecord, image_table
from aevlp.data.row_labels import TableRow, image_column, image_name, label_record, table_columns

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".jsonl")
FILES = tuple(f"{stem}{suffix}" for stem in ("labels", "metadata") for suffix in SUFFIXES)


class TableRows:
    """The rows of a CSV, TSV or JSONL file, read one at a time; blank lines are skipped, surrounding spaces trimmed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.columns: dict[str, None] = {}
        """The column names met so far, in order: a CSV has them all before its first row."""

    def __iter__(self) -> Iterator[TableRow]:
        suffix = self.file.suffix.lower()
        return self._from_jsonl() if suffix == ".jsonl" else self._from_csv(DELIMITERS[suffix])

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


def detects(path: Path) -> bool:
    """Return whether this is a table file, or a folder with one under a usual name."""
    return table_file(path) is not None


def read(path: Path, chosen: ChosenColumns = DETECTED) -> ImageTable:
    """Return one image per row, in the order of the rows."""
    [parsed] = parse(path, chosen)
    refuse_missing(parsed)
    return image_table(parsed.placed, parsed.file.parent, parsed.classes, "table")


def parse(path: Path, chosen: ChosenColumns = DETECTED) -> list[ParsedLabels]:
    """Return the labels of the rows."""
    file = table_file(path)
    if file is None:
        raise UserError(f"{path}: no table; the format 'table' is a {', '.join(SUFFIXES)} file, or a folder with labels.csv")
    fixed = fixed_classes(file.parent)
    table = TableRows(file)
    rows = list(table)
    columns = table_columns(list(table.columns), fixed, file, chosen)
    records = [(row.line, label_record(row, columns, f"{file}, line {row.line}")) for row in rows]
    placed = [(f"{file}, line {line}", record) for line, record in _without_repeats(records, file)]
    return [ParsedLabels(file, placed, fixed or columns.classes or None)]


def image_names(file: Path) -> Iterator[str]:
    """Yield the image that each row names, relative to the table; ignore labels. Rows are read one at a time."""
    rows = TableRows(file)
    column: str | None = None
    for row in rows:
        column = column or image_column(rows.columns, file)
        yield image_name(row, column, f"{file}, line {row.line}")
    if column is None:
        image_column(rows.columns, file)


def table_file(path: Path) -> Path | None:
    """Return the file, or the table under a usual name in the folder; None if there is none."""
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return path
    return next((path / name for name in FILES if (path / name).is_file()), None)


def _without_repeats(records: list[tuple[int, LabelRecord]], file: Path) -> list[tuple[int, LabelRecord]]:
    """Drop rows that repeat an earlier one; raise if two rows contradict each other."""
    first: dict[str, tuple[int, LabelRecord]] = {}
    for line, record in records:
        earlier, other = first.setdefault(record.name, (line, record))
        if record != other:
            how = "in another split" if replace(record, split=other.split) == other else "with other labels"
            raise UserError(f"{file}, line {line}: '{record.name}' is already on line {earlier} {how}; make one row of the two")
    return list(first.values())


def refuse_missing(parsed: ParsedLabels) -> None:
    """Raise if an image that a row names does not exist."""
    folder = parsed.file.parent
    place_of = {record.name: place for place, record in parsed.placed}
    if missing := missing_images(folder, list(place_of)):
        raise UserError(
            f"{place_of[missing[0]]}: {len(missing)} of {len(parsed.placed)} images do not exist ({first_few(missing)}); "
            f"names are relative to {folder}: correct them, or remove their rows"
        )


LOOKS_LIKE = "a CSV, TSV or JSONL file, or a folder with labels.csv or metadata.csv"
# Before the official layouts, beside which a table may lie: whoever wrote it wants it.
register(Reader("table", detects, read, LOOKS_LIKE, rank=-1, parse=parse, takes_columns=True))
