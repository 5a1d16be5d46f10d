"""Table: a CSV, TSV or JSONL file, or a folder with `labels.csv` or `metadata.csv` (or the like) in it.

Labels are names in a column `labels` (and `negatives`), or 1, 0, -1 or nothing in one column per class.
"""

import csv
import json
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from aevlp.core.errors import UserError, did_you_mean, first_few
from aevlp.data.dataset import SPLIT_NAMES, ImageTable
from aevlp.data.files import CLASSES_FILE, fixed_classes, read_lines
from aevlp.data.readers import Reader, label_matrix, register

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".jsonl")
FILES = tuple(f"{stem}{suffix}" for stem in ("labels", "metadata") for suffix in SUFFIXES)
IMAGE = ("image", "file_name", "filename")
POSITIVES = ("labels", "label")
NEGATIVES = ("negatives",)
SPLIT = ("split",)
VALUES = {"": 0, "0": 0, "1": 1, "-1": -1, "0.0": 0, "1.0": 1, "-1.0": -1}  # pandas writes 1.0 in a column with gaps


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


@dataclass(frozen=True)
class _Image:
    line: int
    name: str
    split: str
    values: dict[str, int]  # class name -> 1 or -1, where known


@dataclass(frozen=True)
class _Columns:
    """The name of each column; None where there is no such column."""

    image: str
    split: str | None
    positives: str | None
    negatives: str | None
    classes: tuple[str, ...]  # the columns that are classes; empty if labels are given by name


def detects(path: Path) -> bool:
    """Return whether this is a table file, or a folder with one under a usual name."""
    return _file(path) is not None


def read(path: Path) -> ImageTable:
    """Return one image per row, in the order of the rows."""
    file = _file(path)
    if file is None:
        raise UserError(f"{path}: no table; the format 'table' is a {', '.join(SUFFIXES)} file, or a folder with labels.csv")
    fixed = fixed_classes(file.parent)
    table = TableRows(file)
    rows = list(table)
    columns = _columns(list(table.columns), fixed, file)
    images = _without_repeats([_image(row, columns, f"{file}, line {row.line}") for row in rows], file)
    _refuse_missing(images, file)
    classes = fixed or columns.classes or tuple(sorted({name for image in images for name in image.values}))
    return ImageTable(
        root=file.parent,
        names=tuple(image.name for image in images),
        classes=classes,
        labels=label_matrix(((f"{file}, line {image.line}", image.values) for image in images), classes),
        splits=tuple(image.split for image in images),
        kind="table",
    )


def image_names(file: Path) -> Iterator[str]:
    """Yield the image that each row names, relative to the table; ignore labels. Rows are read one at a time."""
    rows = TableRows(file)
    column: str | None = None
    for row in rows:
        column = column or _image_column(rows.columns, file)
        yield _image_name(row, column, f"{file}, line {row.line}")
    if column is None:
        _image_column(rows.columns, file)


def _file(path: Path) -> Path | None:
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return path
    return next((path / name for name in FILES if (path / name).is_file()), None)


def _first(names: Iterable[str], aliases: tuple[str, ...]) -> str | None:
    """Return the column named by the first alias that any column has, in any case."""
    lower = {name.lower(): name for name in names}
    return next((lower[alias] for alias in aliases if alias in lower), None)


def _found(names: Collection[str]) -> str:
    return f"its columns are: {first_few(names, 8)}" if names else "it is empty"


def _image_column(names: Collection[str], file: Path) -> str:
    if (image := _first(names, IMAGE)) is None:
        aliases = " or ".join(IMAGE[1:])
        raise UserError(f"{file}: no column 'image' (or {aliases}); {_found(names)}; add one with the file names")
    return image


def _columns(names: list[str], fixed: tuple[str, ...] | None, file: Path) -> _Columns:
    image, positives, negatives = _image_column(names, file), _first(names, POSITIVES), _first(names, NEGATIVES)
    classes: tuple[str, ...] = ()
    if positives is None and negatives is None:
        classes = tuple(name for name in names if name.lower() not in (*IMAGE, *SPLIT))
        if not classes:
            raise UserError(f"{file}: no labels in it; {_found(names)}; add a column 'labels', or a column per class")
    if classes and fixed:
        # Other columns hold something else (a size, a source); a missing one may be misspelt.
        for name in fixed:
            if name not in classes:
                raise UserError(
                    f"{file}: no column for class '{name}' of {CLASSES_FILE}{did_you_mean(name, classes)}; "
                    f"rename or add it, or take it out of {CLASSES_FILE}"
                )
        classes = fixed
    return _Columns(image, _first(names, SPLIT), positives, negatives, classes)


def _image(row: TableRow, columns: _Columns, where: str) -> _Image:
    name = _image_name(row, columns.image, where)
    given = _text(row, columns.split, where) or "train"
    split = SPLIT_NAMES.get(given.lower())
    if split is None:
        raise UserError(f"{where}: split '{given}' is none of train, val, test; correct it")
    values = _cells(row, columns.classes, where) if columns.classes else _named(row, columns, where)
    return _Image(row.line, name, split, values)


def _image_name(row: TableRow, column: str, where: str) -> str:
    name = _text(row, column, where)
    if not name:
        raise UserError(f"{where}: no image named in column '{column}'; name one, or remove the row")
    return PurePosixPath(name).as_posix()


def _text(row: TableRow, column: str | None, where: str) -> str:
    value = row.cells.get(column) if column else None
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: '{column}' is {value!r}, not text; write it in quotes")
    return (value or "").strip()


def _named(row: TableRow, columns: _Columns, where: str) -> dict[str, int]:
    positives, negatives = (_names(row, column, where) for column in (columns.positives, columns.negatives))
    both = sorted(set(positives) & set(negatives))
    if both:
        raise UserError(f"{where}: '{both[0]}' is both positive and negative; keep it in one of the two columns")
    return dict.fromkeys(positives, 1) | dict.fromkeys(negatives, -1)


def _names(row: TableRow, column: str | None, where: str) -> list[str]:
    value = row.cells.get(column) if column else None
    if value is None:
        return []
    parts = re.split(r"[;|]", value) if isinstance(value, str) else value if isinstance(value, list) else [value]
    names = []
    for part in parts:
        if not isinstance(part, str):
            raise UserError(f"{where}: '{column}' has {part!r}, which is not a class name; write names in quotes")
        names.append(part.strip())
    return [name for name in names if name]


def _cells(row: TableRow, classes: tuple[str, ...], where: str) -> dict[str, int]:
    values = {}
    for name in classes:
        cell = row.cells.get(name)
        value = VALUES.get("" if cell is None else str(cell).strip())
        if value is None:
            raise UserError(
                f"{where}: column '{name}' has '{cell}', but a class column holds 1, 0, -1 or nothing; "
                f"correct it, or if '{name}' is not a class, list the classes in a {CLASSES_FILE}"
            )
        if value:
            values[name] = value
    return values


def _without_repeats(images: list[_Image], file: Path) -> list[_Image]:
    """Drop rows that repeat an earlier one; raise if two rows contradict each other."""
    first: dict[str, _Image] = {}
    for image in images:
        other = first.setdefault(image.name, image)
        if (image.values, image.split) != (other.values, other.split):
            how = "with other labels" if image.values != other.values else "in another split"
            raise UserError(
                f"{file}, line {image.line}: '{image.name}' is already on line {other.line} {how}; make one row of the two"
            )
    return list(first.values())


def _refuse_missing(images: list[_Image], file: Path) -> None:
    missing = [image for image in images if not (file.parent / image.name).is_file()]
    if missing:
        raise UserError(
            f"{file}, line {missing[0].line}: {len(missing)} of {len(images)} images do not exist "
            f"({first_few(image.name for image in missing)}); names are relative to {file.parent}: "
            "correct them, or remove their rows"
        )


LOOKS_LIKE = "a CSV, TSV or JSONL file, or a folder with labels.csv or metadata.csv"
# Before the official layouts, beside which a table may lie: whoever wrote it wants it.
register(Reader("table", detects, read, LOOKS_LIKE, rank=-1))
