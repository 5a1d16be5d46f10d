"""Label columns of Parquet, Arrow and WebDataset sets: their encodings, the choice among columns, and the split of a file."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from aevlp.core.errors import UserError, did_you_mean, first_few
from aevlp.data.dataset import SPLIT_NAMES
from aevlp.data.files import CLASSES_FILE

FLAGS = (-1, 0, 1)
UNLABELLED = -1  # in a column of class numbers
SPLIT_WORDS = SPLIT_NAMES | {"training": "train", "dev": "val", "testing": "test", "eval": "test", "evaluation": "test"}
"""The words in file names that `datasets` takes for splits."""


@dataclass(frozen=True)
class LabelEncoding:
    """The meaning of the values of a label column: names, numbers of classes, or a flag per class."""

    names: tuple[str, ...] | None
    """Class of each number or flag; None: the column holds names, or numbers whose classes have no names."""
    is_multi_hot: bool

    def labels(self, value: object, where: str) -> tuple[list[str], list[str]]:
        """Return the positive and the negative labels that a value means; `where` is its place in the user's files."""
        if value is None:
            return [], []
        if self.is_multi_hot:
            assert isinstance(value, list)
            assert self.names is not None
            flags = list(zip(self.names, value, strict=True))
            return [name for name, flag in flags if flag == 1], [name for name, flag in flags if flag == -1]
        positives: list[str] = []
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, str):
                positives += [name for name in map(str.strip, re.split(r"[;|]", part)) if name]
            elif isinstance(part, int) and not isinstance(part, bool):
                positives += [] if part == UNLABELLED else [self._name(part, where)]
            elif part is not None:
                raise UserError(f"{where}: the label {str(part)[:40]!r} is neither a name nor the number of a class; correct it")
        return positives, []

    def _name(self, number: int, where: str) -> str:
        if self.names is None and number >= 0:
            return str(number)
        if self.names is None or not 0 <= number < len(self.names):
            count = "" if self.names is None else f" of {len(self.names)}"
            raise UserError(f"{where}: the label {number} is out of the range{count} of the classes; correct it")
        return self.names[number]


def encoding_of(
    values: Sequence[object], names: tuple[str, ...] | None, fixed: tuple[str, ...] | None, what: str
) -> LabelEncoding:
    """Return the encoding of a column's values. `names`: classes that the file lists; `fixed`: those of a `classes.txt`.

    Lists of one length that hold nothing but 1, 0 and -1, and one of them twice, are flags: no image has a class twice.
    `what` names the column, for messages.
    """
    if names is None and (width := _flags([value for value in values if value is not None])):
        if fixed is not None and len(fixed) != width:
            raise UserError(f"{what}: {width} flags per image, but {CLASSES_FILE} lists {len(fixed)} classes; correct one")
        return LabelEncoding(fixed or tuple(map(str, range(width))), True)
    parts = (part for value in values for part in (value if isinstance(value, list) else [value]))
    if names is None and any(isinstance(part, int) for part in parts):
        names = fixed
    return LabelEncoding(names, False)


def _flags(values: Sequence[object]) -> int:
    """Return the number of flags in each of the values; 0 if they are no flags."""
    rows = [value for value in values if isinstance(value, list)]
    if len(rows) < len(values) or len({len(row) for row in rows}) != 1:
        return 0
    if not all(isinstance(part, int | float) and part in FLAGS for row in rows for part in row):
        return 0
    return len(rows[0]) if any(len(set(row)) < len(row) or isinstance(row[0], bool) for row in rows) else 0


def classes_in(encoding: LabelEncoding, labels: Collection[str]) -> tuple[str, ...] | None:
    """Return the classes of a column: those it lists, or numbers in their order; None: the names that occur, sorted."""
    if encoding.names is not None:
        return encoding.names
    return tuple(sorted(labels, key=int)) if labels and all(name.isdecimal() for name in labels) else None


def choose_column(
    option: str, wanted: str | None, obvious: Sequence[str], candidates: Sequence[str], where: Path, what: str
) -> str | None:
    """Return the column that the user wants, or the only obvious one; refuse a name that does not exist, and a doubtful choice.

    None: there is nothing to choose from.
    """
    listed = first_few(candidates, 12) or "none"
    if wanted is not None:
        if wanted not in candidates:
            raise UserError(
                f"{option} {wanted}: {where} has no such column of {what}{did_you_mean(wanted, candidates)}; there are: {listed}"
            )
        return wanted
    if len(obvious) == 1:
        return obvious[0]
    if len(candidates):
        raise UserError(f"{where}: which column holds the {what} is not obvious; name it with {option} (there are: {listed})")
    return None


def split_of(name: str) -> str:
    """Return the split that a file's name or its folders tell, the nearest first; train if they tell none."""
    for part in reversed(name.split("/")):
        for word in re.split(r"[^a-zA-Z0-9]+", part):
            if word.lower() in SPLIT_WORDS:
                return SPLIT_WORDS[word.lower()]
    return "train"
