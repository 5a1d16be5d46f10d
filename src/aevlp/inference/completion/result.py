"""The result of completing labels: its records, its figures, and views of it for notebooks and pandas."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from aevlp.core.chunks import slices_of
from aevlp.core.errors import UserError
from aevlp.core.tables import next_steps
from aevlp.damp.quality import precision_recall
from aevlp.data.annotations import Annotations, ScoredCells, ScoreKind, no_scores
from aevlp.data.dataset import Dataset, Rows, Split, evenly_spread
from aevlp.data.images import BadImage, open_rgb
from aevlp.data.prevalence import Floats
from aevlp.data.records import LabelRecord, records_of
from aevlp.inference.completion.claims import AbsentClaim, Claim, ExpectedClaim
from aevlp.inference.completion.fusion import Flags

if TYPE_CHECKING:
    from pandas import DataFrame

CHUNK = 65_536  # images whose records are made at a time
SAMPLES = 6  # images in a notebook
THUMBNAIL = 128  # pixels of the longer side


@dataclass(frozen=True, eq=False)
class Proposals:
    """Confidences and decisions about the images of a split, all [N, C]."""

    confidence: Floats
    alone: Mapping[str, Floats]  # predictor -> its confidence alone
    proposed: Flags
    denied: Flags
    doubted: Flags

    candidates: Flags

    def cells(self, of: Rows) -> ScoredCells:
        """Return the flagged cells of some images with their scores; their rows are places in `of`."""
        kinds = (
            (ScoreKind.PROPOSED, self.proposed),
            (ScoreKind.PROPOSED_ABSENT, self.denied),
            (ScoreKind.CANDIDATE, self.candidates),
            (ScoreKind.DOUBTED, self.doubted),
        )
        places = [np.nonzero(flags[of]) for _, flags in kinds]
        rows, columns = (np.concatenate([place[axis] for place in places]).astype(np.int32) for axis in (0, 1))
        kind = np.repeat([int(kind) for kind, _ in kinds], [len(place[0]) for place in places]).astype(np.int8)
        alone = {name: values[of[rows], columns].astype(np.float32) for name, values in self.alone.items()}
        return ScoredCells(rows, columns, kind, self.confidence[of[rows], columns].astype(np.float32), alone)


@dataclass(frozen=True)
class LabelCounts:
    """Numbers over the splits whose labels are completed."""

    images: int
    observed: int
    proposed: int
    denied: int
    doubted: int


@dataclass(frozen=True, eq=False)
class Completion:
    """An image set with its labels completed. Iterating over it gives a `LabelRecord` per image, split by split."""

    data: Dataset
    proposals: Mapping[str, Proposals]
    """Split name -> proposals, for the splits whose labels are incomplete."""
    claim: Claim | str
    """Precision and recall of the new labels, measured or expected; or the reason why nothing can be said about them."""
    absences: AbsentClaim | None
    """The labels that are lost among the proposed absences, and their precision; None: no label is known to judge them by."""
    file: Path
    """The file that the records are written to."""
    warnings: tuple[str, ...] = ()
    """Warnings about the predictors: a teacher that does not know the classes, a model that is no better than chance."""

    @property
    def _splits(self) -> list[Split]:
        return [split for split in (self.data.train, self.data.val, self.data.test) if split is not None]

    def __iter__(self) -> Iterator[LabelRecord]:
        for split in self._splits:
            # Some at a time: the scored cells of all would take far more memory than the confidences.
            for rows in slices_of(len(split.names), CHUNK):
                yield from self._records(split, np.arange(rows.start, rows.stop))

    def __len__(self) -> int:
        return sum(len(split.names) for split in self._splits)

    def _records(self, split: Split, rows: Rows) -> Iterator[LabelRecord]:
        """Yield the records of some of a split's images."""
        found = self.proposals.get(split.name)
        known = Annotations(split.annotations.complete, split.annotations.answers).part(rows)
        annotations = Annotations(known.complete, known.answers, no_scores() if found is None else found.cells(rows))
        # To anyone else, images held out of an incompletely labelled set are no validation split.
        name = "train" if split.truth is None else split.name
        return records_of(split.paths.at(rows).names, [name] * len(rows), self.data.classes, split.observed[rows], annotations)

    @cached_property
    def counts(self) -> LabelCounts:
        """Numbers of images and labels over the splits whose labels are completed."""
        splits = [split for split in self._splits if split.name in self.proposals]
        flags = [(found.proposed, found.denied, found.doubted) for found in self.proposals.values()]
        proposed, denied, doubted = (sum(int(each.sum()) for each in kind) for kind in zip(*flags, strict=True))
        observed = sum(int((split.observed == 1).sum()) for split in splits)
        return LabelCounts(sum(len(split.names) for split in splits), observed, proposed, denied, doubted)

    def summary(self) -> str:
        """Return the figures in a few lines, as `aevlp label` prints them."""
        counts = self.counts
        images = max(counts.images, 1)
        lines = [
            f"{counts.images} images: {counts.observed / images:.2f} observed labels each, {counts.proposed / images:.2f} "
            f"proposed, {counts.denied / images:.2f} proposed to be absent; {counts.doubted} observed ones are doubted",
            self.claim if isinstance(self.claim, str) else f"{counts.proposed} new labels: {self.claim}",
        ]
        if counts.denied:
            lines.append(f"{counts.denied} labels proposed to be absent: {self.absences}")
        if self.data.train.truth is not None and (self.data.train.observed == 0).any():
            lines.append(self._against_truth(self.data.train.truth))
        lines += [f"WARNING: {text}" for text in self.warnings]
        lines.append(f"written: {self.file}")
        lines += self._next() if counts.proposed else []
        return "\n".join(lines)

    def _next(self) -> list[str]:
        """Return the next steps: people look at the new labels, and what they say is trained on."""
        review = next_steps(["review", self.file])
        if isinstance(self.claim, ExpectedClaim | str):
            review += "    (its audit measures how many of the new labels are right)"
        return [review]

    def _against_truth(self, truth: npt.NDArray[np.int8]) -> str:
        """Compare the proposals with labels that are known but were hidden; nothing was fitted to them."""
        observed, found, there = self.data.train.observed, self.proposals["train"], truth == 1
        precision, recall = (
            "-" if value is None else f"{100 * value:.1f} %" for value in precision_recall(found.proposed, observed, truth)
        )
        wrong, hidden = int((found.denied & there).sum()), max(int((there & (observed == 0)).sum()), 1)
        return (
            f"against the labels that were hidden: new labels precision {precision}, recall {recall}; the absences have "
            f"{100 * wrong / hidden:.1f} % of them and are wrong in {100 * wrong / max(int(found.denied.sum()), 1):.2f} %"
        )

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"Completion({len(self)} images, {counts.images} of them completed: {counts.observed} labels observed, "
            f"{counts.proposed} proposed, {counts.denied} denied, {counts.doubted} doubted; {self.file})"
        )

    def _repr_html_(self) -> str:
        """Return the figures and a few images with their proposed labels, for notebooks."""
        figures = "".join(f"<li>{escape(line)}</li>" for line in self.summary().splitlines())
        samples = "".join(
            _sample_html(split.paths[row], next(self._records(split, np.array([row])))) for split, row in self._samples()
        )
        return f'<div><ul>{figures}</ul><div style="display:flex;flex-wrap:wrap;gap:12px">{samples}</div></div>'

    def _samples(self) -> list[tuple[Split, int]]:
        """Return a few images with proposed labels, spread evenly over all of them."""
        rows = [
            (split, int(row))
            for split in self._splits
            if split.name in self.proposals
            for row in np.flatnonzero(self.proposals[split.name].proposed.any(1))
        ]
        if not rows:
            return []
        return [rows[index] for index in evenly_spread(len(rows), SAMPLES)]

    def to_pandas(self) -> DataFrame:
        """Return a row per image.

        `observed`, `accepted`, `rejected`, `proposed`, `proposed_absent`, `candidates` and `doubted` are lists of names;
        `confidence` is a dict from the names in the last four to the confidence that the image has the label.
        """
        try:
            import pandas
        except ImportError:
            raise UserError("to_pandas needs pandas; install it with pip install pandas") from None

        columns = ("observed", "accepted", "rejected", "proposed", "proposed_absent", "candidates", "doubted")
        rows = [
            {
                "image": record.name,
                "split": record.split,
                **{name: list(getattr(record, name)) for name in columns},
                "confidence": {name: score.confidence for scores in record.scores.values() for name, score in scores.items()},
            }
            for record in self
        ]
        return pandas.DataFrame(rows, columns=["image", "split", *columns, "confidence"])


def _sample_html(path: Path, record: LabelRecord) -> str:
    """Return an image, as an inline JPEG, with its observed and proposed labels."""
    try:
        image = open_rgb(path, at_least=THUMBNAIL)
        image.thumbnail((THUMBNAIL, THUMBNAIL))
        content = BytesIO()
        image.save(content, "JPEG", quality=72)
        shown = f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}">'
    except BadImage as error:  # the file may have gone since
        shown = escape(error.reason)
    observed = ", ".join(record.observed) or "none"
    proposed = ", ".join(f"{name} {score.confidence:.2f}" for name, score in record.proposed.items())
    lines = "<br>".join(escape(text) for text in (record.name, f"observed: {observed}", f"proposed: {proposed}"))
    return f'<figure style="margin:0;max-width:200px">{shown}<figcaption>{lines}</figcaption></figure>'
