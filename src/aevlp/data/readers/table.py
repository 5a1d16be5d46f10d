"""Table: a CSV, TSV or JSONL file, or a folder with `labels.csv` or `metadata.csv` (or the like) in it.

Names of labels in a column `labels` (and `negatives`), or one column per class with 1, 0, -1 or nothing.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from aevlp.core.errors import UserError, did_you_mean
from aevlp.data.classes import CLASSES_FILE, fixed_classes, some, unknown_class
from aevlp.data.readers import register
from aevlp.data.rows import SUFFIXES, Row, Rows, columns_and_rows
from aevlp.data.table import SPLIT_NAMES, ImageTable

FILES = tuple(f"{stem}{suffix}" for stem in ("labels", "metadata") for suffix in SUFFIXES)
IMAGE = ("image", "file_name", "filename")
POSITIVES = ("labels", "label")
NEGATIVES = ("negatives",)
SPLIT = ("split",)
VALUES = {"": 0, "0": 0, "1": 1, "-1": -1, "0.0": 0, "1.0": 1, "-1.0": -1}  # 1.0: how pandas writes a column with gaps


@dataclass(frozen=True)
class _Image:
    line: int
    name: str
    split: str
    values: dict[str, int]
    """Class name -> 1 or -1, where known."""


@dataclass(frozen=True)
class _Columns:
    """Which column says what; None where there is no such column."""

    image: str
    split: str | None
    positives: str | None
    negatives: str | None
    classes: tuple[str, ...]
    """The columns that are classes; empty if labels are given by name."""


def detects(path: Path) -> bool:
    """Whether this is a table file, or a folder with one under a name of its own."""
    return path.suffix.lower() in SUFFIXES if path.is_file() else any((path / name).is_file() for name in FILES)


def read(path: Path) -> ImageTable:
    """One image per row, in the order of the rows."""
    file = _file(path)
    fixed = fixed_classes(file.parent)
    names, rows = columns_and_rows(file)
    columns = _columns(names, fixed, file)
    images = _once([_image(row, columns, f"{file}, line {row.line}") for row in rows], file)
    _refuse_missing(images, file)
    classes = fixed or columns.classes or tuple(sorted({name for image in images for name in image.values}))
    index = {name: i for i, name in enumerate(classes)}
    labels = np.zeros((len(images), len(classes)), dtype=np.int8)
    for i, image in enumerate(images):
        for name, value in image.values.items():
            if name not in index:
                raise unknown_class(name, classes, f"{file}, line {image.line}")
            labels[i, index[name]] = value
    return ImageTable(
        root=file.parent,
        names=tuple(image.name for image in images),
        classes=classes,
        labels=labels,
        splits=tuple(image.split for image in images),
        kind="table",
    )


def image_names(file: Path) -> Iterator[str]:
    """The image that each row names, relative to the table, read as they are asked for; labels are not looked at."""
    rows = Rows(file)
    column: str | None = None
    for row in rows:
        column = column or _image_column(rows.columns, file)
        yield _image_name(row, column, f"{file}, line {row.line}")
    if column is None:
        _image_column(rows.columns, file)


def _file(path: Path) -> Path:
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return path
    for name in FILES:
        if (path / name).is_file():
            return path / name
    raise UserError(f"{path}: no table; the format 'table' is a {', '.join(SUFFIXES)} file, or a folder with labels.csv")


def _first(names: Iterable[str], aliases: tuple[str, ...]) -> str | None:
    """The column that is called by the first of the aliases that any is called by, in any case."""
    lower = {name.lower(): name for name in names}
    return next((lower[alias] for alias in aliases if alias in lower), None)


def _found(names: Collection[str]) -> str:
    return f"its columns are: {some(names, 8)}" if names else "it is empty"


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
        # Columns beyond those are something else (a size, a source); one that is missing may be misspelt.
        for name in fixed:
            if name not in classes:
                raise UserError(
                    f"{file}: no column for class '{name}' of {CLASSES_FILE}{did_you_mean(name, classes)}; "
                    f"rename or add it, or take it out of {CLASSES_FILE}"
                )
        classes = fixed
    return _Columns(image, _first(names, SPLIT), positives, negatives, classes)


def _image(row: Row, columns: _Columns, where: str) -> _Image:
    name = _image_name(row, columns.image, where)
    given = _text(row, columns.split, where) or "train"
    split = SPLIT_NAMES.get(given.lower())
    if split is None:
        raise UserError(f"{where}: split '{given}' is none of train, val, test; correct it")
    values = _cells(row, columns.classes, where) if columns.classes else _named(row, columns, where)
    return _Image(row.line, name, split, values)


def _image_name(row: Row, column: str, where: str) -> str:
    name = _text(row, column, where)
    if not name:
        raise UserError(f"{where}: no image named in column '{column}'; name one, or remove the row")
    return PurePosixPath(name).as_posix()


def _text(row: Row, column: str | None, where: str) -> str:
    value = row.cells.get(column) if column else None
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: '{column}' is {value!r}, not text; write it in quotes")
    return (value or "").strip()


def _named(row: Row, columns: _Columns, where: str) -> dict[str, int]:
    positives, negatives = (_names(row, column, where) for column in (columns.positives, columns.negatives))
    both = sorted(set(positives) & set(negatives))
    if both:
        raise UserError(f"{where}: '{both[0]}' is both positive and negative; keep it in one of the two columns")
    return dict.fromkeys(positives, 1) | dict.fromkeys(negatives, -1)


def _names(row: Row, column: str | None, where: str) -> list[str]:
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


def _cells(row: Row, classes: tuple[str, ...], where: str) -> dict[str, int]:
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


def _once(images: list[_Image], file: Path) -> list[_Image]:
    """Without the rows that repeat an earlier one; two rows that contradict each other are an error."""
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
            f"({some(image.name for image in missing)}); names are relative to {file.parent}: "
            "correct them, or remove their rows"
        )


# Before the official layouts, beside which a table may lie: whoever wrote it wants it.
register("table", detects, read, looks_like="a CSV, TSV or JSONL file, or a folder with labels.csv or metadata.csv", rank=-1)
