"""Table: a CSV, TSV or JSONL file, or a folder with `labels.csv` or `metadata.csv` (or the like) in it."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from aevlp.core.errors import UserError, first_few
from aevlp.data.addresses import missing_images
from aevlp.data.dataset import ImageTable
from aevlp.data.files import fixed_classes
from aevlp.data.label_file import ParsedLabels
from aevlp.data.readers import DETECTED, ChosenColumns, Reader, register
from aevlp.data.records import LabelRecord, image_table
from aevlp.data.row_labels import TableColumns, image_column, image_name, label_record, table_columns
from aevlp.data.table_rows import SUFFIXES, TableRows

FILES = tuple(f"{stem}{suffix}" for stem in ("labels", "metadata") for suffix in SUFFIXES)
OnLine = tuple[int, LabelRecord]  # a line of the file, and the labels on it


def detects(path: Path) -> bool:
    """Return whether this is a table file, or a folder with one under a usual name."""
    return table_file(path) is not None


def read(path: Path, chosen: ChosenColumns = DETECTED) -> ImageTable:
    """Return one image per row, in the order of the rows."""
    file, lines = _required_file(path), array("q")
    columns = table_columns(TableRows(file).all_columns(), fixed := fixed_classes(file.parent), file, chosen)

    def placed() -> Iterator[tuple[str, LabelRecord]]:
        for line, record in _records(file, columns):
            lines.append(line)
            yield f"{file}, line {line}", record

    table = image_table(placed(), file.parent, fixed or columns.classes or None, "table")
    refuse_missing(file.parent, table.names, lambda row: f"{file}, line {lines[row]}")
    return table


def parse(path: Path, chosen: ChosenColumns = DETECTED) -> list[ParsedLabels]:
    """Return the labels of the rows."""
    file = _required_file(path)
    columns = table_columns(TableRows(file).all_columns(), fixed := fixed_classes(file.parent), file, chosen)
    placed = [(f"{file}, line {line}", record) for line, record in _records(file, columns)]
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


def refuse_missing(folder: Path, names: Sequence[str], place_of: Callable[[int], str]) -> None:
    """Raise if an image does not exist; names [N] are relative to the folder, and `place_of` tells where one is named."""
    if missing := missing_images(folder, names):
        raise UserError(
            f"{place_of(names.index(missing[0]))}: {len(missing)} of {len(names)} images do not exist ({first_few(missing)}); "
            f"names are relative to {folder}: correct them, or remove their rows"
        )


def _required_file(path: Path) -> Path:
    if (file := table_file(path)) is None:
        raise UserError(f"{path}: no table; the format 'table' is a {', '.join(SUFFIXES)} file, or a folder with labels.csv")
    return file


def _records(file: Path, columns: TableColumns) -> Iterator[OnLine]:
    """Yield the labels of a table, one row at a time; rows that repeat an earlier one are left out, or refused if they differ."""

    def all_rows() -> Iterator[OnLine]:
        return ((row.line, label_record(row, columns, f"{file}, line {row.line}")) for row in TableRows(file))

    line_of: dict[str, int] = {}
    repeats = []
    for line, record in all_rows():
        if line_of.setdefault(record.name, line) == line:
            yield line, record
        else:
            repeats.append((line, record))
    if repeats:
        _refuse_contradictions(repeats, line_of, all_rows(), file)


def _refuse_contradictions(repeats: list[OnLine], line_of: dict[str, int], rows: Iterable[OnLine], file: Path) -> None:
    """Raise if an image differs from the first of its name, which is on the line `line_of` and among all `rows`."""
    wanted = {line_of[record.name] for _, record in repeats}
    first = {record.name: record for line, record in rows if line in wanted}
    for line, record in repeats:
        if record != (other := first[record.name]):
            how = "in another split" if replace(record, split=other.split) == other else "with other labels"
            earlier = line_of[record.name]
            raise UserError(f"{file}, line {line}: '{record.name}' is already on line {earlier} {how}; make one row of the two")


LOOKS_LIKE = "a CSV, TSV or JSONL file, or a folder with labels.csv or metadata.csv"
# Before the official layouts, beside which a table may lie: whoever wrote it wants it.
register(Reader("table", detects, read, LOOKS_LIKE, rank=-1, parse=parse, takes_columns=True))
