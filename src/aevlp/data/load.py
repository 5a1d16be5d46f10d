"""Load an image set for training: read it, check that its images can be read, and split it."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from aevlp.core.errors import UserError, first_few
from aevlp.core.options import Options
from aevlp.core.progress import progress
from aevlp.core.remote import RemotePath
from aevlp.data.annotations import ScoreKind
from aevlp.data.answers import AnswerStore, answers_file
from aevlp.data.dataset import (
    Dataset,
    ImageTable,
    Observe,
    Paths,
    Proposed,
    Split,
    WithoutExamples,
    Zeros,
    complete_split,
    prepare,
)
from aevlp.data.fingerprint import Digests
from aevlp.data.image_files import digests
from aevlp.data.images import bad_images
from aevlp.data.known_files import recall
from aevlp.data.readers import ChosenColumns, read

log = logging.getLogger("aevlp")
NO_ANSWERS = "none"  # in place of a file


@dataclass(frozen=True)
class DataOptions(Options, section="data"):
    """Options for reading the image set."""

    format: str | None = None
    """Kind of image set (folder, table, imagefolder, parquet, save-to-disk, webdataset, coco-file, label-studio, fiftyone, flat,
    voc, coco, nus, cub, npy); null: detected."""
    image_column: str | None = None
    """Column with the images, of a set with columns (in WebDataset: the suffix of the images); null: detected."""
    label_column: str | None = None
    """Column with the labels, of a set with columns (in WebDataset: cls, txt, or a key of the json); null: detected."""
    observe: Observe = "given"
    """given: train on the labels as they are; single: keep one positive per training image of a fully labelled set."""
    zeros: Zeros = "unknown"
    """Meaning of a label that is not given in the training split; in the other splits it always means negative."""
    proposed: Proposed = "unknown"
    """Meaning of a label that was proposed and that nobody has confirmed."""
    answers: str | None = None
    """Answers of `aevlp review`; null: those in answers.sqlite in the image set's folder, if there are any; none: no answers."""
    bad_images: Literal["stop", "skip"] = "stop"
    """Images that cannot be read stop the command before training, or are left out with a warning."""
    classes_without_examples: WithoutExamples = "teacher"
    """Classes that no training image has: the teacher speaks for them (if the method asks one), or stop, or leave them out."""

    @property
    def columns(self) -> ChosenColumns:
        """The columns that the user has chosen."""
        return ChosenColumns(self.image_column, self.label_column)


def load(path: Path, options: DataOptions, cache: Path | None) -> Dataset:
    """Return the data set at `path`, without images that cannot be read.

    Unreadable images raise an error before anything is computed, or are left out (`options.bad_images`). Files that were read are
    remembered in `cache`, so that they are hashed and decoded for this once and not in every run.
    """
    table, bad = _read(path, options, cache)
    if options.observe == "given" and table.truth is not None and np.array_equal(table.labels == 1, table.truth == 1):
        log.info("every positive of the training images is observed; --observe single keeps one of each, as published results do")
    cells = table.annotations.scores.of(ScoreKind.PROPOSED)
    if options.proposed == "unknown" and (count := int((table.labels[cells.rows, cells.columns] == 0).sum())):
        log.info("%d proposed labels that nobody has confirmed count as unknown; --proposed positive trains on them", count)
    return _prepared(table, options, bad)


def _prepared(table: ImageTable, options: DataOptions, bad: frozenset[int]) -> Dataset:
    data = prepare(table, observe=options.observe, zeros=options.zeros, proposed=options.proposed, exclude=bad)
    without = data.classes_without_positive()
    if options.classes_without_examples != "drop" or len(without) in (0, len(data.classes)):
        return data
    log.warning("%d of %d classes have no example and are left out: %s", len(without), len(data.classes), first_few(without, 10))
    return data.without_classes(without)


def load_split(path: Path, options: DataOptions, cache: Path | None, name: str) -> tuple[tuple[str, ...], Split]:
    """Return the classes of the image set at `path` and one of its splits; the others may be missing."""
    table, bad = _read(path, options, cache)
    drops = options.classes_without_examples == "drop" and "train" in table.splits
    if name != "train" and name in table.splits and not drops:
        return table.classes, complete_split(table, name, exclude=bad)
    if name not in ("train", "val", *table.splits):
        raise UserError(f"--split test: {path} has none, only {' and '.join(sorted(set(table.splits)))}")
    data = _prepared(table, options, bad)
    split = {"train": data.train, "val": data.val, "test": data.test}[name]
    assert split is not None
    return data.classes, split


def read_answered(path: Path, options: DataOptions) -> ImageTable:
    """Return the table at `path` with the answers that people have given about its images."""
    table = read(path, options.format, options.columns)
    if options.answers == NO_ANSWERS or (options.answers is None and isinstance(path, RemotePath)):
        return table
    file = answers_file(path) if options.answers is None else Path(options.answers)
    if options.answers is None and not file.is_file():
        return table
    answered, foreign = AnswerStore(file, must_exist=True).apply(table)
    given = len(answered.annotations.answers) - len(table.annotations.answers)
    others = f"; {foreign} others are about images or classes that this set does not have" if foreign else ""
    log.info("answers of people: %d, from %s%s", given, file, others)
    return answered


def _read(path: Path, options: DataOptions, cache: Path | None) -> tuple[ImageTable, frozenset[int]]:
    """Return the table at `path` with people's answers, and the rows of its unreadable images."""
    table = read_answered(path, options)
    contents, bad = examine(table.paths, cache)
    if bad and options.bad_images == "stop":
        shown = "; ".join(f"{table.names[row]}: {reason}" for row, reason in list(bad.items())[:3])
        raise UserError(
            f"{path}: {len(bad)} of {len(table.names)} images cannot be read ({shown}); replace or remove them "
            f"(aevlp check {path} lists them), or leave them out with --bad-images skip"
        )
    if bad:
        names = first_few(table.names[row] for row in bad)
        log.warning("%d of %d images cannot be read and are left out: %s", len(bad), len(table.names), names)
    return replace(table, known_digests=contents), frozenset(bad)


def examine(paths: Paths, memory: Path | None) -> tuple[Digests, dict[int, str]]:
    """Return the digest of each file, and index -> reason for the images that cannot be read.

    Files that `memory` knows are not read, except those that could not be read: the reason may be gone (a full table of open
    files, a lost network drive).
    """
    known = recall(paths, memory)
    new = np.flatnonzero(known.digests == b"")
    with progress("hashing every image", len(new)) as advance:
        known.digests[new] = digests(paths.at(new), progress=lambda _: advance(1))
    doubtful = np.flatnonzero(~known.is_readable)
    bad = dict.fromkeys(np.flatnonzero(known.digests == b"").tolist(), "cannot be opened")
    bad |= {int(doubtful[index]): reason for index, reason in bad_images(paths.at(doubtful)).items()}
    known.remember(bad)
    return known.digests, bad
