"""The selection of examples for a page: the most informative labels, each image once and few of each class."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aevlp.data.dataset import Labels, Paths
from aevlp.reports.evidence import Example, ExampleGrid
from aevlp.training.calibration import logit

Floats = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]
Candidate = tuple[float, int, int]  # rank, row, column

GRID_SIZE = 12  # examples per grid
PER_CLASS = 2
MOST_OTHERS = 8  # other labels listed per example


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
