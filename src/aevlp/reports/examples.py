"""Which images a report shows: of many labels, the most telling, with no image twice and no class in all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aevlp.data.table import Labels, Paths
from aevlp.training.calibration import logit

Floats = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]
Candidate = tuple[float, int, int]  # rank, row, column

SHOWN = 12  # exhibits per gallery
PER_CLASS = 2
MOST_OTHERS = 8  # labels listed beside the one in question


@dataclass(frozen=True)
class Tile:
    """What the teacher saw in one view."""

    box: tuple[float, float, float, float]  # left, top, right, bottom, as shares of the image's width and height
    top: str  # the class with the highest score
    top_score: float
    score: float  # of the class in question


@dataclass(frozen=True)
class Exhibit:
    """An image and one label that it has, or is said to have."""

    path: str  # absolute
    name: str
    label: str
    probability: float
    threshold: float
    truth: bool | None  # None: not known
    others: tuple[str, ...]  # the labels that the image is known to have
    pseudo: int | None = None  # what the teacher said: 1 or -1
    tiles: tuple[Tile, ...] = ()  # the whole image, then its tiles


@dataclass(frozen=True)
class Gallery:
    """Exhibits, and how many labels they were chosen from."""

    exhibits: tuple[Exhibit, ...] = ()
    total: int = 0
    agreed: int | None = None  # how many of `total` the truth agrees with; None: not known
    reason: str = ""  # why there is nothing to show


@dataclass(frozen=True)
class Scene:
    """Images that exhibits are chosen from, with what is known and said of them."""

    paths: Paths
    classes: Sequence[str]
    labels: Labels  # [N, C]: 1 where a label is known to be there
    is_complete: bool  # whether all others are known not to be
    probabilities: Floats  # [N, C]
    thresholds: Floats  # [C]

    def exhibit(self, row: int, column: int) -> Exhibit:
        """The image of that row with the label of that column."""
        path = self.paths[row]
        there = np.flatnonzero(self.labels[row] == 1).tolist()
        others = [self.classes[c] for c in there if c != column]
        return Exhibit(
            path=str(path.absolute()),
            name=self.paths.names[row],
            label=self.classes[column],
            probability=float(self.probabilities[row, column]),
            threshold=float(self.thresholds[column]),
            truth=bool(self.labels[row, column] == 1) if self.is_complete else None,
            others=(*others[:MOST_OTHERS], *([f"and {len(others) - MOST_OTHERS} more"] if len(others) > MOST_OTHERS else [])),
        )

    def given(self, column: int) -> Mask:
        """Bool [N]: which images get the label."""
        found: Mask = self.probabilities[:, column] >= self.thresholds[column]
        return found

    def there(self, column: int) -> Mask:
        """Bool [N]: which images are known to have it."""
        found: Mask = self.labels[:, column] == 1
        return found

    def margin(self, column: int) -> npt.NDArray[np.float64]:
        """Float64 [N]: how far each image's logit is above the threshold's."""
        return logit(self.probabilities[:, column]) - logit(self.thresholds[column : column + 1])


def gallery(scene: Scene, mask: Callable[[int], Mask], *, lowest: bool = False) -> Gallery:
    """The labels that `mask` (column -> bool [N]) names: the furthest above their thresholds first, or the furthest below."""
    candidates: list[Candidate] = []
    total = agreed = 0
    for column in range(len(scene.classes)):
        named, margin = mask(column), scene.margin(column)
        candidates += best_of_class(-margin if lowest else margin, named, column)
        total += int(named.sum())
        agreed += int((named & scene.there(column)).sum())
    exhibits = tuple(scene.exhibit(row, column) for row, column in most_telling(candidates))
    return Gallery(exhibits, total, agreed if scene.is_complete else None)


def best_of_class(rank: Floats, mask: Mask, column: int) -> list[Candidate]:
    """The highest ranks [N] within the mask [N]: no more than a gallery can use."""
    rows = np.flatnonzero(mask)
    best = rows[np.argsort(-rank[rows], kind="stable")[:SHOWN]]
    return [(float(rank[row]), int(row), column) for row in best]


def most_telling(candidates: Sequence[Candidate], *, most: int = SHOWN) -> list[tuple[int, int]]:
    """(row, column) of the candidates with the highest ranks: one per image, a few per class."""
    chosen: list[tuple[int, int]] = []
    rows: set[int] = set()
    of_class: Counter[int] = Counter()
    for _, row, column in sorted(candidates, key=lambda candidate: (-candidate[0], *candidate[1:])):
        if len(chosen) < most and row not in rows and of_class[column] < PER_CLASS:
            chosen.append((row, column))
            rows.add(row)
            of_class[column] += 1
    return chosen
