"""The labels in one row of a table, whatever the table lies in: a CSV, a JSONL, a Parquet file, a sample of a tar archive.

Labels are names in a column `labels` (and `negatives`), or 1, 0, -1 or nothing in one column per class. A table that aevlp has
written also has columns for the states of labels (`STATES`), which people may edit.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from aevlp.core.errors import UserError, did_you_mean, first_few
from aevlp.data.annotations import COMPLETE, Answer
from aevlp.data.dataset import SPLIT_NAMES
from aevlp.data.files import CLASSES_FILE
from aevlp.data.readers import DETECTED, ChosenColumns
from aevlp.data.records import LabelRecord, Score, Scores
from aevlp.data.table_rows import TableRow

IMAGE = ("image", "file_name", "filename")
POSITIVES = ("labels", "label")
NEGATIVES = ("negatives",)
SPLIT = ("split",)
STATES = ("accepted", "proposed", "proposed_negatives", "candidates", "doubted", "complete", "answers", "witnesses", "observed")
YES, NO = ("1", "true", "yes"), ("", "0", "false", "no")
UNKNOWN_CONFIDENCE = 0.5  # of a proposal that comes without one
VALUES = {"": 0, "0": 0, "1": 1, "-1": -1, "0.0": 0, "1.0": 1, "-1.0": -1}  # pandas writes 1.0 in a column with gaps


@dataclass(frozen=True)
class TableColumns:
    """The name of each column; None where there is no such column."""

    image: str
    split: str | None
    positives: str | None
    negatives: str | None
    classes: tuple[str, ...]  # the columns that are classes; empty if labels are given by name
    states: dict[str, str]  # a name of `STATES` -> the column that holds it


def _first(names: Iterable[str], aliases: tuple[str, ...]) -> str | None:
    """Return the column named by the first alias that any column has, in any case."""
    lower = {name.lower(): name for name in names}
    return next((lower[alias] for alias in aliases if alias in lower), None)


def _found(names: Collection[str]) -> str:
    return f"its columns are: {first_few(names, 8)}" if names else "it is empty"


def image_column(names: Collection[str], file: Path) -> str:
    """Return the column that names the images."""
    if (image := _first(names, IMAGE)) is None:
        aliases = " or ".join(IMAGE[1:])
        raise UserError(f"{file}: no column 'image' (or {aliases}); {_found(names)}; add one with the file names")
    return image


def table_columns(names: list[str], fixed: tuple[str, ...] | None, file: Path, chosen: ChosenColumns = DETECTED) -> TableColumns:
    """Return the columns of a table: those that the user has chosen, or else those with the usual names."""
    for option, name in (("--image-column", chosen.image), ("--label-column", chosen.label)):
        if name is not None and name not in names:
            raise UserError(f"{option} {name}: {file} has no such column{did_you_mean(name, names)}; {_found(names)}")
    image = chosen.image or image_column(names, file)
    positives, negatives = chosen.label or _first(names, POSITIVES), _first(names, NEGATIVES)
    classes: tuple[str, ...] = ()
    if positives is None and negatives is None:
        classes = tuple(name for name in names if name != image and name.lower() not in (*IMAGE, *SPLIT))
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
    states = {} if classes else {name: column for name in STATES if (column := _first(names, (name,))) is not None}
    return TableColumns(image, _first(names, SPLIT), positives, negatives, classes, states)


def label_record(row: TableRow, columns: TableColumns, where: str) -> LabelRecord:
    """Return the labels of a row; `where` is its place in the user's files."""
    name = image_name(row, columns.image, where)
    given = _text(row, columns.split, where) or "train"
    split = SPLIT_NAMES.get(given.lower())
    if split is None:
        raise UserError(f"{where}: split '{given}' is none of train, val, test; correct it")
    if not columns.classes:
        return _named(row, columns, where, name, split)
    values = _cells(row, columns.classes, where)
    positive, negative = (tuple(label for label, value in values.items() if value == sign) for sign in (1, -1))
    return LabelRecord(name, split, positive, rejected=negative)


def image_name(row: TableRow, column: str, where: str) -> str:
    """Return the image that a row names."""
    name = _text(row, column, where)
    if not name:
        raise UserError(f"{where}: no image named in column '{column}'; name one, or remove the row")
    return name if "://" in name else PurePosixPath(name).as_posix()


def _text(row: TableRow, column: str | None, where: str) -> str:
    value = row.cells.get(column) if column else None
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: '{column}' is {value!r}, not text; write it in quotes")
    return (value or "").strip()


def _named(row: TableRow, columns: TableColumns, where: str, name: str, split: str) -> LabelRecord:
    column = columns.states.get
    labels, negatives = (_names(row, each, where) for each in (columns.positives, columns.negatives))
    accepted = _names(row, column("accepted"), where)
    proposed, absent = (_scores(row, column(each), where) for each in ("proposed", "proposed_negatives"))
    if "observed" in columns.states and "accepted" not in columns.states:
        # Up to version 0.7.0, `labels` and `negatives` held the proposals too.
        given = _names(row, column("observed"), where)
        labels = [label for label in labels if label in given or label not in proposed]
        negatives = [label for label in negatives if label not in absent]
    if both := sorted({*labels, *accepted} & set(negatives)):
        raise UserError(f"{where}: '{both[0]}' is both positive and negative; keep it in one of the two columns")
    known = {*labels, *accepted, *negatives}
    witnesses = _scores(row, column("witnesses"), where)
    doubted, candidates = (_scores(row, column(each), where) for each in ("doubted", "candidates"))
    return LabelRecord(
        name=name,
        split=split,
        observed=tuple(sorted(set(labels) - set(accepted))),
        accepted=tuple(sorted(set(accepted))),
        rejected=tuple(sorted(set(negatives))),
        proposed=_with_predictors(proposed, witnesses, known),
        proposed_absent=_with_predictors(absent, witnesses, known),
        candidates=_with_predictors(candidates, witnesses, known),
        doubted=_with_predictors(doubted, witnesses, set()),
        is_complete=_is_yes(row, column("complete"), where),
        answers={
            label: answer
            for label, answer in _answers(row, column("answers"), where).items()
            if label in (*accepted, *negatives, COMPLETE)  # an answer stays behind where a person takes its label away
        },
    )


def _with_predictors(scores: Scores, witnesses: Scores, known: set[str]) -> dict[str, Score]:
    """Return the scores of labels that are not known, with each predictor's own: a CSV has these as `who:name=probability`."""
    found = {}
    for label, score in scores.items():
        own = {name.partition(":")[0]: each.confidence for name, each in witnesses.items() if name.partition(":")[2] == label}
        if label not in known:
            found[label] = Score(score.confidence, {**score.predictors, **own})
    return found


def _scores(row: TableRow, column: str | None, where: str) -> dict[str, Score]:
    """Return label -> score, from `dog=0.93;cat=0.81` or {"dog": {"confidence": 0.93, "teacher": 0.9}}."""
    value = row.cells.get(column) if column else None
    if isinstance(value, dict):
        found = {}
        for label, score in value.items():
            values = score if isinstance(score, dict) else {"confidence": score}
            numbers = {name: _probability(number, where, f"{column}' of '{label}") for name, number in values.items()}
            found[label] = Score(numbers.pop("confidence", UNKNOWN_CONFIDENCE), numbers)
        return found
    scores = {}
    for part in _names(row, column, where):
        label, separator, number = part.rpartition("=")
        scores[label if separator else part] = Score(
            _probability(number, where, f"{column}' of '{label}") if separator else UNKNOWN_CONFIDENCE
        )
    return scores


def _probability(value: object, where: str, what: str) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        number = None
    if number is None or not 0 <= number <= 1:
        raise UserError(f"{where}: '{what}' is {value!r}, not a number from 0 to 1; correct it")
    return number


def _is_yes(row: TableRow, column: str | None, where: str) -> bool:
    value = row.cells.get(column) if column else None
    text = "" if value is None else str(value).strip().lower()
    if text not in (*YES, *NO):
        raise UserError(f"{where}: '{column}' is {value!r}; write 1 if every class of the image has been looked at, else nothing")
    return text in YES


def _answers(row: TableRow, column: str | None, where: str) -> dict[str, Answer]:
    """Return label -> answer, from `dog=ann@2026-01-31T10:00:00+00:00` or {"dog": {"who": "ann", "at": "2026-..."}}.

    In the first, characters that separate are percent-encoded.
    """
    value = row.cells.get(column) if column else None
    if isinstance(value, dict):
        return {
            label: Answer(str(each.get("who", "")), str(each.get("at", ""))) if isinstance(each, dict) else Answer()
            for label, each in value.items()
        }
    found = {}
    for part in _names(row, column, where):
        label, _, rest = part.rpartition("=")
        who, _, at = rest.rpartition("@")
        found[label] = Answer(unquote(who), unquote(at))
    return found


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
