"""An image set with incomplete labels: as a reader finds it (`ImageTable`) and as a model trains on it (`Dataset`)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from aevlp.core.errors import UserError, first_few
from aevlp.core.remote import joined
from aevlp.data.annotations import NO_ANNOTATIONS, Annotations, ScoreKind
from aevlp.data.annotations import Labels as Labels
from aevlp.data.annotations import Rows as Rows
from aevlp.data.fingerprint import Digests, set_fingerprint
from aevlp.data.image_files import digests

log = logging.getLogger("aevlp")
Observe = Literal["given", "single"]
Zeros = Literal["unknown", "negative"]
Proposed = Literal["unknown", "positive"]
WithoutExamples = Literal["teacher", "stop", "drop"]

SPLITS = ("train", "val", "test")
SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}  # as users may spell them
HELD_OUT = 0.2  # share of the training images that is held out for validation when the image set has no split "val"
SINGLE_POSITIVE_SEED = 1200  # of published results
BY_CONTENT = "content-"  # beginning of a fingerprint that names all bytes of the files
FEWEST = 5  # smallest number of training images of which some can be held out


def evenly_spread(count: int, most: int) -> Rows:
    """Return at most `most` of the rows 0..count-1, evenly spread."""
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.intp))


@dataclass(frozen=True)
class Paths(Sequence[Path]):
    """The paths of images (`aevlp.data.image_files`). Each is made on access: for a million, only the names stay in memory."""

    root: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Path: ...

    @overload
    def __getitem__(self, index: slice) -> "Paths": ...

    def __getitem__(self, index: int | slice) -> "Path | Paths":
        if isinstance(index, slice):
            return Paths(self.root, self.names[index])
        return joined(self.root, self.names[index])

    def at(self, rows: "Rows") -> "Paths":
        """Return the paths of some rows, in this order."""
        return Paths(self.root, tuple(self.names[row] for row in rows))


@dataclass(frozen=True, eq=False)
class ImageTable:
    """An image set as it lies on disk, before any protocol is applied to it. Every reader returns one."""

    root: Path  # folder that `names` are relative to
    names: tuple[str, ...]  # one per image, with forward slashes; no two are equal
    classes: tuple[str, ...]  # class names, in the order of the columns of `labels`
    labels: Labels  # int8[N, C] as given; `prepare` decides the meaning of a 0
    splits: tuple[str, ...]  # one of `SPLITS` per image
    kind: str  # name of the reader
    truth: Labels | None = None  # int8[N, C] in {1, -1}: the complete labels of every image; None: not known to be complete
    notes: tuple[str, ...] = ()  # remarks of the reader, one line each, for `aevlp check`
    known_digests: Digests | None = None  # of the files, if somebody has read them already
    annotations: Annotations = NO_ANNOTATIONS  # answers of people, proposals, and which images are complete
    location: Path | None = None  # the folder or the file that it was read from; None: not read

    def __post_init__(self) -> None:
        for name, labels in (("labels", self.labels), ("truth", self.truth)):
            if labels is not None and (labels.dtype != np.int8 or labels.shape != (len(self.names), len(self.classes))):
                raise ValueError(f"{name} must be int8[{len(self.names)}, {len(self.classes)}]")
        if len(self.splits) != len(self.names) or not set(self.splits) <= set(SPLITS):
            raise ValueError(f"splits must name one of {SPLITS} per image")

    @property
    def place(self) -> Path:
        """The folder or the file that it was read from, as the user calls it."""
        return self.location or self.root

    @property
    def paths(self) -> Paths:
        """The image files, in order."""
        return Paths(self.root, self.names)

    @cached_property
    def digests(self) -> Digests:
        """The digest of each file's content, read once if it is not known."""
        return digests(self.paths) if self.known_digests is None else self.known_digests


@dataclass(frozen=True, eq=False)
class Split:
    """The images of one split, with their labels."""

    name: str  # train, val or test
    root: Path
    names: tuple[str, ...]
    digests: Digests  # of each file's content: embeddings belong to it, not to the name
    observed: Labels  # int8[N, C] in {1, 0, -1}: the labels that a method may use
    truth: Labels | None  # int8[N, C] in {1, -1}: the labels that a method is evaluated by; None if they are not completely known
    annotations: Annotations = NO_ANNOTATIONS  # answers of people, proposals, and which images are complete

    def part(self, rows: Rows) -> "Split":
        """Return the images of some rows, in this order."""
        truth = None if self.truth is None else self.truth[rows]
        names, annotations = self.paths.at(rows).names, self.annotations.part(rows)
        return Split(self.name, self.root, names, self.digests[rows], self.observed[rows], truth, annotations)

    def of_classes(self, columns: Rows) -> "Split":
        """Return the same images with some of the classes, in this order."""
        truth = None if self.truth is None else self.truth[:, columns]
        return replace(self, observed=self.observed[:, columns], truth=truth, annotations=self.annotations.of_classes(columns))

    @property
    def evaluation_labels(self) -> Labels:
        """The truth or, where it is not known, the observed labels."""
        return self.observed if self.truth is None else self.truth

    @property
    def paths(self) -> Paths:
        """The image files, in order."""
        return Paths(self.root, self.names)


@dataclass(frozen=True, eq=False)
class Dataset:
    """An image set, ready for training."""

    classes: tuple[str, ...]
    train: Split
    val: Split  # its truth is None if it was held out of incompletely labelled images: mAP on it is then a lower bound
    test: Split | None
    place: Path  # the folder or the file that it was read from

    def classes_without_positive(self) -> tuple[str, ...]:
        """Return the classes without an observed positive among the training images."""
        return tuple(self.classes[column] for column in np.flatnonzero(~(self.train.observed == 1).any(axis=0)))

    def without_classes(self, names: Sequence[str]) -> "Dataset":
        """Return the same images without some of the classes."""
        columns = np.flatnonzero(~np.isin(self.classes, names))
        test = None if self.test is None else self.test.of_classes(columns)
        kept = tuple(self.classes[column] for column in columns)
        return Dataset(kept, self.train.of_classes(columns), self.val.of_classes(columns), test, self.place)


def prepare(
    table: ImageTable,
    *,
    observe: Observe = "given",
    zeros: Zeros = "unknown",
    proposed: Proposed = "unknown",
    exclude: frozenset[int] = frozenset(),
) -> Dataset:
    """Return the splits of an image set, with observed labels and truth.

    `observe`: "given" takes the labels as they are; "single" expects fully labelled training images and keeps one observed
    positive of each. `zeros`: the meaning of a 0 in the training split, where the image is not complete. `proposed`: the meaning
    of a proposed label there. Validation and test are always fully labelled: everything not positive is negative. `exclude`: rows
    of the table to leave out. They are removed after every draw, so that a file that cannot be read does not change what is
    drawn for the others.
    """
    train = rows_of(table, "train")
    if train.size == 0:
        raise UserError(f"{table.place}: no training images; put some in the split 'train'")
    observed, truth = labels_of(table, "train", observe=observe, zeros=zeros, proposed=proposed)
    val = rows_of(table, "val")
    kept = np.arange(train.size)
    if val.size:
        val_observed, val_truth = labels_of(table, "val")
    else:
        if train.size < FEWEST:
            raise UserError(
                f"{table.place}: too few training images ({train.size}) to hold some out for validation; "
                f"add images (at least {FEWEST} in all), or a split 'val'"
            )
        kept, held_out = hold_out(train.size)
        val = train[held_out]
        val_truth = None if truth is None else truth[held_out]
        val_observed = observed[held_out] if val_truth is None else val_truth
    return Dataset(
        classes=table.classes,
        train=_split(table, "train", train[kept], observed[kept], None if truth is None else truth[kept], exclude),
        val=_split(table, "val", val, val_observed, val_truth, exclude),
        test=complete_split(table, "test", exclude=exclude) if "test" in table.splits else None,
        place=table.place,
    )


def complete_split(table: ImageTable, name: str, *, exclude: frozenset[int] = frozenset()) -> Split:
    """Return the split "val" or "test" that the table itself has, without the excluded rows."""
    return _split(table, name, rows_of(table, name), *labels_of(table, name), exclude)


def _split(table: ImageTable, name: str, rows: Rows, observed: Labels, truth: Labels | None, exclude: frozenset[int]) -> Split:
    stays = ~np.isin(rows, list(exclude))
    if rows.size and not stays.any():
        raise UserError(f"{table.place}: no readable image is left in the split '{name}'; replace the files")
    rows = rows[stays]
    names, annotations = table.paths.at(rows).names, table.annotations.part(rows)
    truth = None if truth is None else truth[stays]
    return Split(name, table.root, names, table.digests[rows], observed[stays], truth, annotations)


def rows_of(table: ImageTable, split: str) -> Rows:
    """Return the rows of the table that are in a split, in order."""
    return np.flatnonzero(np.array(table.splits, dtype=object) == split)


def labels_of(
    table: ImageTable,
    split: str,
    *,
    observe: Observe = "given",
    zeros: Zeros = "unknown",
    proposed: Proposed = "unknown",
) -> tuple[Labels, Labels | None]:
    """Return observed labels and truth (None if incomplete) of a split of the table; the options concern "train" alone."""
    rows = rows_of(table, split)
    given = table.labels[rows]
    full = complete_labels((given if table.truth is None else table.truth[rows]) == 1)
    if split != "train":
        return full, full
    if observe == "single":
        if zeros == "negative":
            raise UserError(
                "observe 'single' hides all labels but one per image, so zeros cannot be negative; leave out one option"
            )
        return single_positives(full), full
    if proposed == "positive":
        cells = table.annotations.part(rows).scores.of(ScoreKind.PROPOSED)
        given[cells.rows, cells.columns] = np.where(given[cells.rows, cells.columns] == 0, 1, given[cells.rows, cells.columns])
    is_complete = np.isin(rows, list(table.annotations.complete)) | (zeros == "negative")
    observed = np.where(is_complete[:, None], complete_labels(given == 1), given)
    if table.truth is None:
        return observed, None if (observed == 0).any() else observed
    if wrong := int(((observed == -1) & (full == 1)).sum()):
        raise UserError(
            f"{table.place}: zeros 'negative' contradicts {wrong} of the complete labels, which are positive; leave it out"
        )
    return observed, full


def complete_labels(positive: NDArray[np.bool_]) -> Labels:
    """Return int8[N, C] in {1, -1}: everything not positive is negative."""
    return np.where(positive, np.int8(1), np.int8(-1))


def hold_out(count: int) -> tuple[Rows, Rows]:
    """Return the indices that stay and those held out for validation, both sorted. The draw is that of published results."""
    order = np.random.RandomState(SINGLE_POSITIVE_SEED).permutation(count)
    stay = count - round(HELD_OUT * count)
    return np.sort(order[:stay]), np.sort(order[stay:])


def single_positives(labels: Labels) -> Labels:
    """Keep one random positive per row, by the standard protocol (Cole et al., CVPR 2021); everything else becomes unknown.

    The draw of a row depends on every row before it: pass a whole split, in order, before validation images are held out.
    """
    rng = np.random.RandomState(SINGLE_POSITIVE_SEED)
    observed = np.zeros_like(labels)
    for row, kept in zip(labels, observed, strict=True):
        positives = np.flatnonzero(row == 1)
        rng.shuffle(positives)
        kept[positives[:1]] = 1
        # Thrown away, but it advances the generator: without it the draw is not the one that published results use.
        rng.shuffle(np.flatnonzero(row != 1))
    return observed


def data_fingerprint(data: Dataset) -> str:
    """Return a name for the images, labels and classes of a data set."""
    parts = [set_fingerprint(data.classes, [b"class"] * len(data.classes))]
    for split in (data.train, data.val, data.test):
        if split is not None:
            parts += [split.name, set_fingerprint(split.names, split.digests), blake2b(split.observed.tobytes()).hexdigest()]
    return BY_CONTENT + blake2b(" ".join(parts).encode(), digest_size=16).hexdigest()


def names_content(fingerprint: object) -> bool:
    """Return whether a fingerprint names whole files; up to version 0.6.0 it named their ends, and cannot be compared."""
    return str(fingerprint).startswith(BY_CONTENT)


def require_examples(dataset: Dataset, choice: WithoutExamples = "stop", *, asks_teacher: bool = False) -> None:
    """Raise if a class has no observed positive to learn from, unless a teacher is asked and is to speak for it."""
    without = dataset.classes_without_positive()
    if not without:
        return
    what = f"{len(without)} of {len(dataset.classes)} classes have no example"
    if len(without) == len(dataset.classes):
        what = f"none of the {len(dataset.train.names)} training images has a label"
        if choice != "teacher" or not asks_teacher or not (dataset.val.observed == 1).any():
            raise UserError(
                f"{dataset.place}: {what}; tag some of them, or give a split 'val' with labels and train with a method that "
                "asks a teacher"
            )
    if choice == "teacher" and asks_teacher:
        log.warning("%s; they are learnt from the teacher's labels alone: %s", what, first_few(without, 10))
        return
    other = "train with a method that asks a teacher, which speaks for them, " if choice == "teacher" and not asks_teacher else ""
    raise UserError(
        f"{dataset.place}: {what} among the {len(dataset.train.names)} training images ({first_few(without, 10)}); "
        f"add examples, leave these classes out with --classes-without-examples drop, {other}"
        "or give a split 'val' if none is to be held out of 'train'"
    )
