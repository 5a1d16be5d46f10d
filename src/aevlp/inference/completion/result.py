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

from aevlp.core.errors import UserError
from aevlp.core.seeds import seed_for
from aevlp.damp.quality import precision_recall
from aevlp.data.dataset import Dataset, Split
from aevlp.data.images import BadImage, open_rgb
from aevlp.inference.completion.claims import Claim, ExpectedClaim
from aevlp.inference.completion.fusion import Doubles, Flags
from aevlp.inference.completion.records import Completed, Score
from aevlp.inference.completion.sample import SAMPLE, sample_file

if TYPE_CHECKING:
    from pandas import DataFrame

SAMPLES = 6  # images in a notebook
THUMBNAIL = 128  # pixels of the longer side


@dataclass(frozen=True, eq=False)
class Proposals:
    """Confidences and decisions about the images of a split, all [N, C]."""

    confidence: Doubles
    alone: Mapping[str, Doubles]  # predictor -> its confidence alone
    proposed: Flags
    denied: Flags
    doubted: Flags

    def scores(self, flags: Flags, row: int, classes: tuple[str, ...], *, rising: bool) -> dict[str, Score]:
        """Return the scores of an image's flagged labels, by falling or rising confidence."""
        columns = np.flatnonzero(flags[row])
        order = np.argsort((1 if rising else -1) * self.confidence[row, columns], kind="stable")
        return {
            classes[c]: Score(
                float(self.confidence[row, c]), {name: float(values[row, c]) for name, values in self.alone.items()}
            )
            for c in columns[order]
        }


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
    """An image set with its labels completed. Iterating over it gives a `Completed` record per image, split by split."""

    data: Dataset
    proposals: Mapping[str, Proposals]
    """Split name -> proposals, for the splits whose labels are incomplete."""
    claim: Claim | str
    """Precision and recall of the new labels, measured or expected; or the reason why nothing can be said about them."""
    file: Path
    """The file that the records are written to."""

    @property
    def _splits(self) -> list[Split]:
        return [split for split in (self.data.train, self.data.val, self.data.test) if split is not None]

    def __iter__(self) -> Iterator[Completed]:
        for split in self._splits:
            for row in range(len(split.names)):
                yield self._record(split, row)

    def __len__(self) -> int:
        return sum(len(split.names) for split in self._splits)

    def _record(self, split: Split, row: int) -> Completed:
        classes, found = self.data.classes, self.proposals.get(split.name)

        def names(value: int) -> tuple[str, ...]:
            return tuple(classes[c] for c in np.flatnonzero(split.observed[row] == value))

        return Completed(
            name=split.names[row],
            # To anyone else, images held out of an incompletely labelled set are no validation split.
            split="train" if split.truth is None else split.name,
            observed=names(1),
            absent=names(-1),
            proposed=found.scores(found.proposed, row, classes, rising=False) if found else {},
            proposed_absent=found.scores(found.denied, row, classes, rising=True) if found else {},
            doubted=found.scores(found.doubted, row, classes, rising=True) if found else {},
        )

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
        if self.data.train.truth is not None and (self.data.train.observed == 0).any():
            lines.append(self._against_truth(self.data.train.truth))
        lines.append(f"written: {self.file}")
        if not self.is_verified:
            lines.append(
                f"next: look at the images in {sample_file(self.file)} (a random sample of the new labels) and count how many "
                "are right; or label 50 or more images completely as the split 'val', and the precision is measured"
            )
        return "\n".join(lines)

    @property
    def is_verified(self) -> bool:
        """True if nothing was proposed, or its precision was measured."""
        return not self.counts.proposed or not isinstance(self.claim, ExpectedClaim | str)

    def sample(self) -> list[tuple[str, str, float]]:
        """Return (image, label, confidence) of new labels, a random sample of at most `SAMPLE` in random order."""
        cells = [
            (split.names[row], self.data.classes[column], float(found.confidence[row, column]))
            for split in self._splits
            if (found := self.proposals.get(split.name)) is not None
            for row, column in zip(*np.nonzero(found.proposed), strict=True)
        ]
        order = np.random.default_rng(seed_for(0, "sample")).permutation(len(cells))[:SAMPLE]
        return [cells[index] for index in order]

    def _against_truth(self, truth: npt.NDArray[np.int8]) -> str:
        """Compare the proposals with labels that are known but were hidden; nothing was fitted to them."""
        observed, found, there = self.data.train.observed, self.proposals["train"], truth == 1
        precision, recall = (
            "-" if value is None else f"{value:.3f}" for value in precision_recall(found.proposed, observed, truth)
        )
        labels = found.proposed | (observed == 1)
        hits = int((labels & there).sum())
        wrong = int((found.denied & there).sum()) / max(int(found.denied.sum()), 1)
        return (
            f"against the labels that were hidden: proposed labels precision {precision}, recall {recall}; "
            f"with the observed ones precision {hits / max(labels.sum(), 1):.3f}, recall {hits / max(there.sum(), 1):.3f}; "
            f"{100 * wrong:.2f} % of the absences wrong"
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
        samples = "".join(_sample_html(split.paths[row], self._record(split, row)) for split, row in self._samples())
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
        return [rows[index] for index in np.unique(np.linspace(0, len(rows) - 1, SAMPLES).round().astype(int))]

    def to_pandas(self) -> DataFrame:
        """Return a row per image.

        `observed`, `absent`, `proposed`, `proposed_absent` and `doubted` are lists of names; `confidence` is a dict from the
        names in the last three to the confidence that the image has the label.
        """
        try:
            import pandas
        except ImportError:
            raise UserError("to_pandas needs pandas; install it with pip install pandas") from None

        columns = ("observed", "absent", "proposed", "proposed_absent", "doubted")
        rows = [
            {
                "image": record.name,
                "split": record.split,
                **{name: list(getattr(record, name)) for name in columns},
                "confidence": {
                    name: score.confidence
                    for scores in (record.proposed, record.proposed_absent, record.doubted)
                    for name, score in scores.items()
                },
            }
            for record in self
        ]
        return pandas.DataFrame(rows, columns=["image", "split", *columns, "confidence"])


def _sample_html(path: Path, record: Completed) -> str:
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
