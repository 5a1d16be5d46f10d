"""Load an image set for training: read it, check that its images can be read, and split it."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from aevlp.core.errors import UserError, first_few
from aevlp.core.files import write_json
from aevlp.core.options import Options
from aevlp.data.dataset import Dataset, ImageTable, Observe, Split, Zeros, complete_split, prepare
from aevlp.data.fingerprint import set_fingerprint
from aevlp.data.images import bad_images
from aevlp.data.readers import read

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class DataOptions(Options, section="data"):
    """Options for reading the image set."""

    format: str | None = None
    """Kind of image set (folder, table, flat, voc, coco, nus, cub, npy); null: detected."""
    observe: Observe = "given"
    """given: train on the labels as they are; single: keep one positive per training image of a fully labelled set."""
    zeros: Zeros = "unknown"
    """Meaning of a label that is not given in the training split; in the other splits it always means negative."""
    bad_images: Literal["stop", "skip"] = "stop"
    """Images that cannot be read stop the command before training, or are left out with a warning."""


def load(path: Path, options: DataOptions, cache: Path | None) -> Dataset:
    """Return the data set at `path`, without images that cannot be read.

    Unreadable images raise an error before anything is computed, or are left out (`options.bad_images`). The list of them is kept
    in `cache`, so that an image set is decoded for this once and not in every run.
    """
    table, bad = _read(path, options, cache)
    if options.observe == "given" and table.truth is not None and np.array_equal(table.labels == 1, table.truth == 1):
        log.info("every positive of the training images is observed; --observe single keeps one of each, as published results do")
    return prepare(table, observe=options.observe, zeros=options.zeros, exclude=bad)


def load_split(path: Path, options: DataOptions, cache: Path | None, name: str) -> tuple[tuple[str, ...], Split]:
    """Return the classes of the image set at `path` and one of its splits; the others may be missing."""
    table, bad = _read(path, options, cache)
    if name != "train" and name in table.splits:
        return table.classes, complete_split(table, name, exclude=bad)
    if name == "test":
        raise UserError(f"--split test: {path} has none, only {' and '.join(sorted(set(table.splits)))}")
    data = prepare(table, observe=options.observe, zeros=options.zeros, exclude=bad)
    return data.classes, data.train if name == "train" else data.val


def _read(path: Path, options: DataOptions, cache: Path | None) -> tuple[ImageTable, frozenset[int]]:
    """Return the table at `path` and the rows of its unreadable images."""
    table = read(path, options.format)
    bad = _bad_images(table, cache)
    if bad and options.bad_images == "stop":
        shown = "; ".join(f"{table.names[row]}: {reason}" for row, reason in list(bad.items())[:3])
        raise UserError(
            f"{path}: {len(bad)} of {len(table.names)} images cannot be read ({shown}); replace or remove them "
            f"(aevlp check {path} lists them), or leave them out with --bad-images skip"
        )
    if bad:
        names = first_few(table.names[row] for row in bad)
        log.warning("%d of %d images cannot be read and are left out: %s", len(bad), len(table.names), names)
    return table, frozenset(bad)


def _bad_images(table: ImageTable, cache: Path | None) -> dict[int, str]:
    """Return row -> reason for the images that cannot be read; look only at the doubtful ones of a set that is in the cache."""
    known = None if cache is None else cache / "readable" / f"{set_fingerprint(table.names, table.digests)}.json"
    rows = list(range(len(table.names))) if known is None else _doubtful_rows(known, len(table.names))
    bad = {rows[index]: reason for index, reason in bad_images([table.paths[row] for row in rows]).items()}
    if known is not None:
        try:
            write_json(known, bad)
        except UserError as error:  # without the cache, the next run is only slower
            log.debug("%s", error)
    return bad


def _doubtful_rows(known: Path, count: int) -> list[int]:
    """Return the rows that the file `known` lists as unreadable; every row if the file is missing or damaged.

    These rows are looked at again, because the reason may be gone (a full table of open files, a lost network drive).
    """
    try:
        rows = [int(row) for row in dict(json.loads(known.read_bytes()))]
    except (OSError, ValueError, TypeError, RecursionError):
        return list(range(count))
    return rows if all(row in range(count) for row in rows) else list(range(count))
