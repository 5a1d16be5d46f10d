"""From a path to a data set that can be trained on: read, checked for unreadable files, split."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from aevlp.core.errors import UserError
from aevlp.core.files import write_json
from aevlp.core.options import Options
from aevlp.core.progress import progress
from aevlp.data.fingerprint import set_fingerprint
from aevlp.data.images import bad_images
from aevlp.data.readers import read
from aevlp.data.splits import Dataset, Split, complete_split, prepare
from aevlp.data.table import ImageTable

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class DataOptions(Options, section="data"):
    """How the image set is read."""

    format: str | None = None
    """Kind of image set (folder, table, flat, voc, coco, nus, cub, npy); null: detected."""
    observe: Literal["given", "single"] = "given"
    """given: train on the labels as they are; single: keep one positive per training image of a fully labelled set."""
    zeros: Literal["unknown", "negative"] = "unknown"
    """What a label that is not given means in the training split; everywhere else it means negative."""
    bad_images: Literal["stop", "skip"] = "stop"
    """What to do about images that cannot be read: stop before training, or leave them out and say so."""


def load(path: Path, options: DataOptions, cache: Path | None) -> Dataset:
    """The data set at `path`, every image of which can be read.

    Unreadable images stop it here, before anything is computed, or are left out (`bad_images`). Which they are is kept in
    `cache`, so that an image set is decoded for this once and not in every run.
    """
    table, bad = _readable(path, options, cache)
    if options.observe == "given" and table.truth is not None and np.array_equal(table.labels == 1, table.truth == 1):
        log.info("every positive of the training images is observed; --observe single keeps one of each, as published results do")
    return prepare(table, observe=options.observe, zeros=options.zeros, exclude=bad)


def load_split(path: Path, options: DataOptions, cache: Path | None, name: str) -> tuple[tuple[str, ...], Split]:
    """The classes of the image set at `path` and one of its splits; it need have no other."""
    table, bad = _readable(path, options, cache)
    if name != "train" and name in table.splits:
        return table.classes, complete_split(table, name, exclude=bad)
    if name == "test":
        raise UserError(f"--split test: {path} has none, only {' and '.join(sorted(set(table.splits)))}")
    data = prepare(table, observe=options.observe, zeros=options.zeros, exclude=bad)
    return data.classes, data.train if name == "train" else data.val


def _readable(path: Path, options: DataOptions, cache: Path | None) -> tuple[ImageTable, frozenset[int]]:
    """The table at `path` and its rows to leave out."""
    table = read(path, options.format)
    bad = _bad_images(table, cache)
    if bad and options.bad_images == "stop":
        shown = "; ".join(f"{table.names[row]}: {reason}" for row, reason in list(bad.items())[:3])
        raise UserError(
            f"{path}: {len(bad)} of {len(table.names)} images cannot be read ({shown}); replace or remove them "
            f"(aevlp check {path} lists them), or leave them out with --bad-images skip"
        )
    if bad:
        names = ", ".join(table.names[row] for row in list(bad)[:3]) + (", ..." if len(bad) > 3 else "")
        log.warning("%d of %d images cannot be read and are left out: %s", len(bad), len(table.names), names)
    return table, frozenset(bad)


def _bad_images(table: ImageTable, cache: Path | None) -> dict[int, str]:
    """Row -> reason of the images that cannot be read; from the cache if this very set has been looked at before."""
    known = None if cache is None else cache / "readable" / f"{set_fingerprint(table.names, table.digests)}.json"
    # What could not be read then may be readable now (a full table of open files, a lost network drive).
    rows = list(range(len(table.names))) if known is None else _doubtful(known, len(table.names))
    with progress("reading every image once", len(rows)) as advance:
        found = bad_images([table.paths[row] for row in rows], progress=lambda _: advance(1))
    bad = {rows[index]: reason for index, reason in found.items()}
    if known is not None:
        try:
            write_json(known, bad)
        except UserError as error:  # a cache that cannot be written is only slower
            log.debug("%s", error)
    return bad


def _doubtful(known: Path, count: int) -> list[int]:
    """The rows that could not be read when the set was looked at; all of them if it was not, or if its list is damaged."""
    every = range(count)
    try:
        rows = [int(row) for row in dict(json.loads(known.read_bytes()))]
    except (OSError, ValueError, TypeError, RecursionError):
        return list(every)
    return rows if all(row in every for row in rows) else list(every)
