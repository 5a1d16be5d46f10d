"""The image set in the rows of Parquet or Arrow files: which columns hold images and labels, and the table that they make."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from aevlp.core.errors import UserError, first_few
from aevlp.data.addresses import missing_images
from aevlp.data.dataset import ImageTable
from aevlp.data.files import fixed_classes, refuse_repeated
from aevlp.data.image_files import opened
from aevlp.data.label_columns import FLAGS, LabelEncoding, choose_column, classes_in, encoding_of
from aevlp.data.readers import ChosenColumns
from aevlp.data.records import LabelRecord, image_table
from aevlp.data.row_labels import IMAGE, POSITIVES, SPLIT, TableColumns, label_record
from aevlp.data.table_rows import TableRow

if TYPE_CHECKING:
    from aevlp.data.arrow_files import ArrowRows

WRITTEN = ("observed", "accepted", "rejected", "proposed")  # columns of names that `aevlp label --out-format parquet` writes
CONFIDENCE, COMPLETE = "confidence", "complete"
log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class _Plan:
    """The columns of a set."""

    image: str
    is_path: bool  # the image column holds the names of files
    labels: tuple[str, ...]  # one column of labels, or one per class, or those of `WRITTEN`
    others: tuple[str, ...]  # columns that are read beside them
    split: str | None

    @property
    def is_written(self) -> bool:
        return self.labels == WRITTEN


@dataclass(frozen=True)
class _File:
    """A file of a set."""

    name: str  # relative to the folder of the set
    split: str
    rows: "ArrowRows"

    @property
    def path(self) -> Path:
        return self.rows.file


def read_rows(root: Path, names: Sequence[tuple[str, str]], chosen: ChosenColumns, kind: str) -> ImageTable:
    """Return the table of some files of a folder, each given with its split; a column `split` tells it row by row."""
    files = [_File(name, split, cast("ArrowRows", opened(root / name))) for name, split in names]
    fixed = fixed_classes(root)
    plan = _plan(files[0].rows, chosen, root)
    if not plan.labels:
        plan = replace(plan, labels=_flag_columns(plan, files, fixed, root))
    contents = [_content(file, plan, files[0]) for file in files]
    encodings = {
        name: encoding_of(
            [value for content in contents for value in content[name]],
            _listed_classes(files, name),
            fixed,
            f"{root}, column '{name}'",
        )
        for name in plan.labels
    }
    placed: list[tuple[str, LabelRecord]] = []
    for file, content in zip(files, contents, strict=True):
        for row in range(file.rows.count):
            cells, where = {column: values[row] for column, values in content.items()}, f"{file.path}, row {row}"
            name = _image_name(file, row, cells, plan)
            placed.append((where, _record(cells, plan, encodings, name, file.split, where)))
    if plan.is_path:
        found = [record.name for _, record in placed]
        refuse_repeated(found, root, "name each once")
        if absent := missing_images(root, found):
            raise UserError(f"{root}: {len(absent)} of {len(found)} images do not exist ({first_few(absent)}); correct them")
    labels = f"column '{plan.labels[0]}'" if len(plan.labels) == 1 else f"columns {first_few(plan.labels, 6)}"
    log.info("%s: images from column '%s', labels from %s (--image-column, --label-column)", root, plan.image, labels)
    return image_table(placed, root, fixed or _classes(plan, encodings, placed), kind)


def _content(file: _File, plan: _Plan, first: _File) -> dict[str, list[Any]]:
    """Return the columns of a file, except that of the images' bytes."""
    names = [*plan.labels, *plan.others, *([plan.split] if plan.split else []), *([plan.image] if plan.is_path else [])]
    columns = file.rows.schema.names
    if missing := [name for name in (*names, plan.image) if name not in columns]:
        raise UserError(
            f"{file.path}: no column '{missing[0]}', which {first.name} has; its columns are: {first_few(columns, 8)}"
        )
    return _values(file.rows, names)


def _image_name(file: _File, row: int, cells: dict[str, Any], plan: _Plan) -> str:
    if plan.is_path:
        folder = file.name.rpartition("/")[0]
        return "/".join(filter(None, (folder, str(cells[plan.image]))))
    return f"{file.name}/{file.rows.image_name(plan.image, row)}"


def _values(rows: "ArrowRows", names: list[str]) -> dict[str, list[Any]]:
    try:
        return rows.columns(names)
    except (OSError, ValueError) as error:  # those of pyarrow are ValueErrors
        raise UserError(f"{rows.file}: damaged ({' '.join(str(error).split())[:200]}); write or fetch it again") from None


def _plan(rows: "ArrowRows", chosen: ChosenColumns, root: Path) -> _Plan:
    fields = list(rows.schema.names)
    lower = {name.lower(): name for name in fields}
    paths = [name for name in fields if rows.is_text(name)]
    images = rows.image_columns or [lower[name] for name in IMAGE if name in lower and lower[name] in paths]
    obvious = images if len(images) == 1 else [name for name in images if name.lower() == IMAGE[0]]
    image = choose_column("--image-column", chosen.image, obvious, [*images, *(paths if chosen.image else [])], root, "images")
    if image is None:
        raise UserError(
            f"{rows.file}: no column of images (a struct of bytes and path, or bytes); its columns are: {first_few(fields, 8)}"
        )
    split = next((lower[name] for name in SPLIT if name in lower and lower[name] in paths), None)
    rest = [name for name in fields if name not in (image, split, *rows.image_columns)]
    is_path = image not in rows.image_columns
    if chosen.label is None and set(WRITTEN) <= set(rest):
        return _Plan(image, is_path, WRITTEN, tuple(name for name in (CONFIDENCE, COMPLETE) if name in rest), split)
    usual = [lower[name] for name in POSITIVES if lower.get(name) in rest][:1]
    telling = [name for name in rest if _class_names(rows, name) or rows.is_list(name)]
    candidates = telling if chosen.label is None else rest
    label = choose_column("--label-column", chosen.label, usual or telling, candidates, root, "labels")
    return _Plan(image, is_path, () if label is None else (label,), (), split)


def _flag_columns(plan: _Plan, files: list[_File], fixed: tuple[str, ...] | None, root: Path) -> tuple[str, ...]:
    """Return the column of each class: those of `classes.txt`, or all that hold nothing but 1, 0, -1 and nothing."""
    first = files[0].rows
    known = [name for name in first.schema.names if first.is_flag(name)]
    if fixed is not None and (missing := [name for name in fixed if name not in known]):
        raise UserError(f"{root}: no label column, and none for the class '{missing[0]}'; name one with --label-column")
    for file in files:
        named = [name for name in fixed or known if name in file.rows.schema.names]
        values = _values(file.rows, named)
        known = [name for name in named if all(value is None or value in FLAGS for value in values[name])]
    if len(known) < 2:
        others = [name for name in first.schema.names if name not in (plan.image, plan.split)]
        listed = first_few(others, 12) or "none"
        raise UserError(f"{root}: no label column is obvious; name one with --label-column (there are: {listed})")
    return tuple(known)


def _record(
    cells: dict[str, Any], plan: _Plan, encodings: dict[str, LabelEncoding], image: str, split: str, where: str
) -> LabelRecord:
    told = cells[plan.split] if plan.split and cells[plan.split] else split
    row: dict[str, object] = {"image": image, "split": told}
    states: dict[str, str] = {}
    classes: tuple[str, ...] = ()
    if plan.is_written:
        observed, accepted, rejected, proposed = (encodings[name].labels(cells[name], where)[0] for name in WRITTEN)
        confidence = cells.get(CONFIDENCE) or []
        if len(confidence) != len(proposed):
            confidence = [0.5] * len(proposed)
        row |= {"labels": observed, "negatives": rejected, "accepted": accepted, "complete": bool(cells.get(COMPLETE))}
        row["proposed"] = dict(zip(proposed, confidence, strict=True))
        states = {name: name for name in ("accepted", "proposed", "complete")}
    elif len(plan.labels) == 1:
        [label] = plan.labels
        row["labels"], row["negatives"] = encodings[label].labels(cells[label], where)
    else:
        classes = plan.labels
        row |= {name: None if cells[name] is None else int(cells[name]) for name in classes}
    columns = TableColumns("image", "split", None if classes else "labels", None if classes else "negatives", classes, states)
    return label_record(TableRow(0, row), columns, where)


def _class_names(rows: "ArrowRows", column: str) -> tuple[str, ...] | None:
    """Return the classes that `datasets` lists for a column of class numbers, or of lists of them; None if it lists none."""
    feature = rows.features.get(column)
    for _ in range(2):
        if isinstance(feature, list) and len(feature) == 1:
            feature = {"feature": feature[0]}
        if isinstance(feature, dict) and isinstance(feature.get("names"), list):
            return tuple(map(str, feature["names"]))
        feature = feature.get("feature") if isinstance(feature, dict) else None
    return None


def _listed_classes(files: list[_File], column: str) -> tuple[str, ...] | None:
    """Return the classes that all files list for a column."""
    names = _class_names(files[0].rows, column)
    for file in files:
        if (others := _class_names(file.rows, column)) != names:
            raise UserError(f"{file.path}: lists other classes for '{column}' than {files[0].name}; write the files again, alike")
        if others is not None:
            refuse_repeated(others, f"{file.path}, column '{column}'", "rename one", "classes")
    return names


def _classes(plan: _Plan, encodings: dict[str, LabelEncoding], placed: list[tuple[str, LabelRecord]]) -> tuple[str, ...] | None:
    if len(plan.labels) > 1 and not plan.is_written:
        return plan.labels
    return classes_in(encodings[plan.labels[0]], {name for _, record in placed for name in record.confirmed})
