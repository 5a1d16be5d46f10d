"""The order of a review: the grids and images that are most worth a look.

The gain of an answer is the expected number of labels that it puts right: a proposed label of confidence p is wrong with 1 - p, a
candidate is a missing label with p. It counts up to twice as much where the predictors disagree, and up to twice as much in a
rare class. The cost is counted in keys: one to settle, and one for each expected exception.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aevlp.data.annotations import ScoredCells, ScoreKind

Doubles = NDArray[np.float64]
RARE = 10  # confirmed positives, below which a class is called rare; its answers then count 1.5 times or more
DISAGREEMENT = 0.4  # mean difference between two predictors' confidences, above which a person is told


@dataclass(frozen=True)
class GridSuggestion:
    """A grid of open cells of one class and of similar confidence."""

    column: int
    cells: NDArray[np.intp]  # indices into the scored cells, surest first
    gain: float  # expected labels put right, weighted
    cost: float  # expected clicks and keys
    accepts: bool  # True: settling the grid accepts what is not marked
    reason: str  # one line for the person


@dataclass(frozen=True)
class ImageSuggestion:
    """An image with open cells."""

    row: int
    gain: float  # expected labels put right, weighted
    cost: float  # expected clicks and keys
    reason: str  # one line for the person


@dataclass(frozen=True, eq=False)
class _Cells:
    """The open cells of a review in the order of their groups, and what an answer about each is expected to give, all [M]."""

    places: NDArray[np.intp]  # indices into the scored cells
    kinds: NDArray[np.int8]
    confidence: Doubles
    change: Doubles  # probability that the answer differs from the present state
    disagreement: Doubles  # 0 to 1
    weight: Doubles  # 1 to 4

    def sums(self, group: NDArray[np.intp], groups: int) -> "_Sums":
        """Return the sums over groups of cells; `group` [M] is the number of each cell's group."""
        kind = group * len(ScoreKind) + self.kinds

        def by_kind(values: Doubles | None) -> Doubles:
            return np.bincount(kind, values, groups * len(ScoreKind)).reshape(groups, -1).astype(np.float64)

        gain, there, disagreement = (
            np.bincount(group, values, groups).astype(np.float64)
            for values in (self.weight * self.change, self.confidence, self.disagreement)
        )
        return _Sums(gain, there, disagreement, by_kind(None), by_kind(self.change))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over the cells of each of G groups."""

    gain: Doubles
    there: Doubles  # expected labels
    disagreement: Doubles
    counts: Doubles  # [G, kinds]: cells
    changes: Doubles  # [G, kinds]: expected changes

    @property
    def cells(self) -> Doubles:
        """The number of cells."""
        total: Doubles = self.counts.sum(1)
        return total

    def at(self, groups: NDArray[np.intp]) -> "_Sums":
        """Return the sums of some groups, in this order."""
        return _Sums(*(values[groups] for values in (self.gain, self.there, self.disagreement, self.counts, self.changes)))


def suggest_grids(
    scores: ScoredCells, is_open: NDArray[np.bool_], positives: NDArray[np.intp], *, size: int, most: int | None = None
) -> list[GridSuggestion]:
    """Return grids of at most `size` cells that hold all open cells, the highest gain per cost first; the first `most` of them.

    `is_open` [M]: cells that nobody has answered and nobody else is looking at; `positives` [C]: confirmed positives per class.
    A grid holds likely labels or unlikely ones, so that few cells of it are exceptions; doubted labels have grids of their own.
    """
    is_doubted = scores.kinds == ScoreKind.DOUBTED
    group = (scores.columns.astype(np.int64) * 2 + is_doubted) * 2 + (scores.confidence < 0.5)
    cells, group = _ordered(scores, is_open, positives, group)
    if not len(group):
        return []
    first, length = _runs(group)
    # A run is cut into grids whose sizes differ by one cell at most.
    grids = -(-length // size)
    share = np.repeat(grids, grids)
    part = np.arange(len(share)) - np.repeat(grids.cumsum() - grids, grids)
    starts = np.repeat(first, grids) + -(-part * np.repeat(length, grids) // share)
    sizes = np.diff(np.append(starts, len(group)))
    sums = cells.sums(np.repeat(np.arange(len(starts)), sizes), len(starts))
    cost = 1 + np.minimum(sums.there, sums.cells - sums.there)
    best = np.argsort(-sums.gain / cost, kind="stable")[:most]
    sums, columns = sums.at(best), scores.columns[cells.places[starts[best]]]
    values = zip(
        columns.tolist(),
        [cells.places[start:end] for start, end in zip(starts[best].tolist(), (starts + sizes)[best].tolist(), strict=True)],
        sums.gain.tolist(),
        cost[best].tolist(),
        (2 * sums.there >= sums.cells).tolist(),
        _reasons(sums, list(scores.predictors), positives[columns]),
        strict=True,
    )
    return [GridSuggestion(*each) for each in values]


def suggest_images(
    scores: ScoredCells, is_open: NDArray[np.bool_], positives: NDArray[np.intp], *, most: int | None = None
) -> list[ImageSuggestion]:
    """Return the images that have open cells, the highest gain per cost first; the arguments are those of `suggest_grids`.

    An answer about an image is an answer about all its cells: one key, and one more for each expected change.
    """
    cells, group = _ordered(scores, is_open, positives, scores.rows.astype(np.int64))
    if not len(group):
        return []
    first, length = _runs(group)
    sums = cells.sums(np.repeat(np.arange(len(first)), length), len(first))
    cost = 1 + sums.changes.sum(1)
    best = np.argsort(-sums.gain / cost, kind="stable")[:most]
    sums, rows = sums.at(best), group[first[best]]
    reasons = _reasons(sums, list(scores.predictors), None)
    values = zip(rows.tolist(), sums.gain.tolist(), cost[best].tolist(), reasons, strict=True)
    return [ImageSuggestion(*each) for each in values]


def _ordered(
    scores: ScoredCells, is_open: NDArray[np.bool_], positives: NDArray[np.intp], group: NDArray[np.int64]
) -> tuple[_Cells, NDArray[np.int64]]:
    """Return the open cells by group, the surest of each first, and the group of each."""
    places = np.flatnonzero(is_open)
    # A float's bits have the order of the floats, as long as none is negative: one key sorts by both.
    surest = np.maximum(scores.confidence[places], 0).astype(np.float32).view(np.uint32).astype(np.int64)
    places = places[np.argsort((group[places] << 32) - surest, kind="stable")]
    confidence, kinds = scores.confidence[places].astype(np.float64), scores.kinds[places]
    has_label = (kinds == ScoreKind.PROPOSED) | (kinds == ScoreKind.DOUBTED)
    disagreement = _disagreement([values[places] for values in scores.predictors.values()], len(places))
    rarity = RARE / (RARE + positives[scores.columns[places]])
    change = np.where(has_label, 1 - confidence, confidence)
    return _Cells(places, kinds, confidence, change, disagreement, (1 + disagreement) * (1 + rarity)), group[places]


def _runs(group: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first place and the length of each run of equal values."""
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    return first, np.diff(np.append(first, len(group)))


def _disagreement(predictors: list[NDArray[np.float32]], count: int) -> Doubles:
    """Return the greatest difference between two predictors' confidences of each cell; 0 where fewer than two are known."""
    highest, lowest = np.full(count, -1.0), np.full(count, 2.0)
    for values in predictors:
        highest, lowest = np.fmax(highest, values), np.fmin(lowest, values)
    return np.where(highest > lowest, highest - lowest, 0.0)


def _reasons(sums: _Sums, predictors: list[str], positives: NDArray[np.intp] | None) -> list[str]:
    """Return why each group is worth a look, in a line each; `positives` [G] is None for groups of several classes."""
    disagree = f"{', '.join([*predictors[:-2], ' and '.join(predictors[-2:])])} disagree"
    both = "both predictors" if len(predictors) == 2 else "every predictor"
    counts, changes = sums.counts.astype(int).tolist(), sums.changes.round().astype(int).tolist()
    confirmed = [RARE] * len(counts) if positives is None else positives.tolist()
    is_disputed = (sums.disagreement > DISAGREEMENT * sums.cells).tolist()
    reasons = []
    for (proposed, absent, candidates, doubted), (wrong, denied, missing, _), rare, disputed in zip(
        counts, changes, confirmed, is_disputed, strict=True
    ):
        parts = []
        if doubted:
            parts.append(f"{_labels(doubted)} doubted by {both}")
        if proposed:
            parts.append(f"{_labels(proposed, 'proposed ')}, about {wrong} of them wrong")
        if candidates or absent:
            parts.append(f"{candidates + absent} not proposed, about {missing + denied} of them missing")
        if rare < RARE:
            parts.append(f"rare class: {rare} confirmed so far")
        if disputed:
            parts.append(disagree)
        reasons.append("; ".join(parts))
    return reasons


def _labels(count: int, kind: str = "") -> str:
    return f"{count} {kind}label{'' if count == 1 else 's'}"
