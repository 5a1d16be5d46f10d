"""The selection of examples for a page: the most informative labels, each image once and few of each class.

The examples of DAMP's pseudo-labels come with the teacher's scores of every tile.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from aevlp.data.dataset import Labels, Paths, Rows
from aevlp.data.regression import logit
from aevlp.reports.evidence import Example, ExampleGrid, Tile
from aevlp.sources.damp import Damp
from aevlp.store.packs import chunks_of

Floats = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]
Candidate = tuple[float, int, int]  # rank, row, column

GRID_SIZE = 12  # examples per grid
PER_CLASS = 2
MOST_OTHERS = 8  # other labels listed per example
POSITIVE, NEGATIVE = 6, 3  # examples of pseudo-labels, which are larger than those of other grids
EPOCH = 1  # whose views are shown: those of draw 0


@dataclass(frozen=True)
class SplitPredictions:
    """The images of a split with their known labels and predicted probabilities."""

    paths: Paths
    classes: Sequence[str]
    labels: Labels  # [N, C]: 1 where a label is known to be present
    is_complete: bool  # whether all others are known to be absent
    probabilities: Floats  # [N, C]
    thresholds: Floats  # [C]

    def example(self, row: int, column: int) -> Example:
        """Return the image of that row with the label of that column."""
        others = [self.classes[c] for c in np.flatnonzero(self.labels[row] == 1).tolist() if c != column]
        return Example(
            path=str(self.paths[row].absolute()),
            name=self.paths.names[row],
            label=self.classes[column],
            probability=float(self.probabilities[row, column]),
            threshold=float(self.thresholds[column]),
            truth=bool(self.labels[row, column] == 1) if self.is_complete else None,
            others=(*others[:MOST_OTHERS], *([f"and {len(others) - MOST_OTHERS} more"] if len(others) > MOST_OTHERS else [])),
        )

    @property
    def predicted(self) -> Mask:
        """The labels whose probability reaches the threshold, bool [N, C]."""
        mask: Mask = self.probabilities >= self.thresholds
        return mask

    @property
    def positive(self) -> Mask:
        """The labels that are known to be present, bool [N, C]."""
        mask: Mask = self.labels == 1
        return mask

    def margin(self, column: int) -> npt.NDArray[np.float64]:
        """Return the distance of each image's logit above the threshold's, float64 [N]."""
        return logit(self.probabilities[:, column]) - logit(self.thresholds[column : column + 1])


def example_grid(split: SplitPredictions, mask: Mask, *, lowest: bool = False) -> ExampleGrid:
    """Choose examples within a mask [N, C]: the furthest above their thresholds first or, with `lowest`, the furthest below."""
    candidates: list[Candidate] = []
    for column in range(len(split.classes)):
        margin = split.margin(column)
        candidates += best_of_class(-margin if lowest else margin, mask[:, column], column)
    examples = tuple(split.example(row, column) for row, column in most_informative(candidates))
    return ExampleGrid(examples, int(mask.sum()), int((mask & split.positive).sum()) if split.is_complete else None)


def best_of_class(rank: Floats, mask: Mask, column: int) -> list[Candidate]:
    """Return the candidates of a class with the highest ranks [N] within the mask [N], as many as a grid can use."""
    rows = np.flatnonzero(mask)
    best = rows[np.argsort(-rank[rows], kind="stable")[:GRID_SIZE]]
    return [(float(rank[row]), int(row), column) for row in best]


def most_informative(candidates: Sequence[Candidate], *, most: int = GRID_SIZE) -> list[tuple[int, int]]:
    """Return (row, column) of the candidates with the highest ranks: one per image, `PER_CLASS` per class."""
    chosen: list[tuple[int, int]] = []
    rows: set[int] = set()
    of_class: Counter[int] = Counter()
    for _, row, column in sorted(candidates, key=lambda candidate: (-candidate[0], *candidate[1:])):
        if len(chosen) < most and row not in rows and of_class[column] < PER_CLASS:
            chosen.append((row, column))
            rows.add(row)
            of_class[column] += 1
    return chosen


def teacher_grid(source: Damp, split: SplitPredictions, rows: Rows, observed: Labels) -> ExampleGrid:
    """Choose pseudo-labels of the first epoch that are wrong or, without the truth, that the classifier doubts most.

    `split` and `observed` [M, C] belong to the training images `rows` [M]. All processes call it together.
    """
    pseudo = source.labels(EPOCH).numpy()[rows]
    added = (observed == 0) & (pseudo != 0)
    right = split.positive == (pseudo == 1)
    if split.is_complete:
        chosen = _chosen(split, added & ~right, pseudo, _confidence(source, rows))
    else:
        chosen = _chosen(split, added, pseudo, None)
    examples = tuple(_example(source, split, rows[row], pseudo[row, column], row, column) for row, column in chosen)
    return ExampleGrid(examples, int(added.sum()), int((added & right).sum()) if split.is_complete else None)


def _chosen(split: SplitPredictions, mask: Mask, pseudo: Labels, confidence: Floats | None) -> list[tuple[int, int]]:
    """Return (row, column) within the mask [M, C]: the teacher's surest labels, or those that the classifier doubts most."""
    chosen: list[tuple[int, int]] = []
    for sign, most in ((1, POSITIVE), (-1, NEGATIVE)):
        candidates: list[Candidate] = []
        for column in range(len(split.classes)):
            rank = -sign * split.margin(column) if confidence is None else sign * confidence[:, column]
            candidates += best_of_class(rank, mask[:, column] & (pseudo[:, column] == sign), column)
        chosen += most_informative(candidates, most=most)
    return chosen


def _confidence(source: Damp, rows: Rows) -> npt.NDArray[np.float32]:
    """Return the mean of the whole image's and the best tile's score of some training images, float32 [M, C]."""
    found = [np.empty((0, len(source.classes)), np.float32)]
    for chunk in chunks_of(len(rows)):
        views = source.view_scores(source.views, EPOCH, rows[chunk.start : chunk.stop])
        found.append((views[:, 0] + views[:, 1:].max(1)) / 2)
    return np.concatenate(found)


def _example(source: Damp, split: SplitPredictions, image: int, pseudo: int, row: int, column: int) -> Example:
    """Return the example of a pseudo-label with the teacher's scores of the training image `image` and its tiles."""
    (views,) = source.view_scores(source.views, EPOCH, np.array([image]))
    tiles = tuple(
        Tile(box, split.classes[top], float(view[top]), float(view[column]))
        for box, top, view in zip(source.views.boxes(EPOCH, image), views.argmax(1), views, strict=True)
    )
    return replace(split.example(row, column), pseudo=int(pseudo), tiles=tiles)
