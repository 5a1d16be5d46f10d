"""The cut above which labels are proposed, and what can be said about the precision and recall of the new labels.

On fully labelled images that imitate the images to complete, both are measured: the confidences of these images come from fits
without them, and the cut for the best F1 is chosen by the confidences of the images to complete. Without such images nothing is
measured: the mean confidence is the expected precision, and it is as uncertain as the number of labels per image.
Absences are chosen by what they would cost: at most a small share of the labels to find may be lost among them. Where labels are
rare, nearly all cells are absent, and a high precision of absences says nothing about that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from aevlp.core.chunks import slices_of
from aevlp.core.seeds import seed_for
from aevlp.data.prevalence import Floats
from aevlp.inference.completion.fusion import Doubles, FitTarget
from aevlp.training.intervals import ImageBootstrap, Interval

FEWER, MORE = 1 / 6, 6.0  # plausible numbers of labels to find, as multiples of the estimate
MOST_HIDDEN = 2.0  # labels to find per image that are always plausible
RECALL_WORTH = 0.5  # of an image: the weights of the imitation, which the number of labels to find rests on, are uncertain too
CELLS = 2**18  # whose cumulative sums are in memory at a time
CUTS = 25  # tried for a precision, from the strictest on


@dataclass(frozen=True)
class MeasuredClaim:
    """Precision and recall of the new labels, measured on fully labelled images."""

    images: int
    precision: Interval
    recall: Interval

    def __str__(self) -> str:
        return f"precision {self.precision}, recall {self.recall}, measured on {self.images} fully labelled images"


@dataclass(frozen=True)
class ExpectedClaim:
    """The mean confidence of the new labels, and its range for other plausible numbers of labels per image. Unverified."""

    precision: float
    low: float
    high: float
    fewest: float  # labels per image at `low`
    most: float  # labels per image at `high`

    def __str__(self) -> str:
        mean, low, high = (f"{100 * share:.0f}" for share in (self.precision, self.low, self.high))
        labels = f"{self.fewest:.2f} to {self.most:.2f} labels"
        return f"expected precision {mean} %, unverified ({low} to {high} % if an image has {labels})"


Claim = MeasuredClaim | ExpectedClaim


@dataclass(frozen=True)
class AbsentClaim:
    """The cost of the proposed absences and, where it is measured, their precision."""

    lost: Interval | float
    """Share of the labels to find that is lost among them: measured, or the share of the observed labels that look like them."""
    precision: Interval | None = None  # None: not measured

    def __str__(self) -> str:
        if isinstance(self.lost, float):
            return f"unverified; {100 * self.lost:.1f} % of the labels that are known look like them"
        return f"precision {self.precision}; share of the labels to find that is lost among them {self.lost}; measured"


def best_f1_cut(confidence: Floats, found: int = 0) -> float:
    """Return the cut with the best expected F1 among cells of these confidences [M]; inf: no cell is worth it.

    `found` labels are known already and count as hits: the more there are, the surer a new one must be.
    """
    ranked = np.sort(confidence)[::-1]
    if not len(ranked) or ranked[0] <= 0:
        return np.inf
    total = float(ranked.sum(dtype=np.float64))
    best, highest = 0, -np.inf
    for rows, hits in cumulative(ranked):
        f1 = 2 * (found + hits) / (2 * found + np.arange(rows.start + 1, rows.stop + 1) + total)
        below = ranked[rows.start + 1 : rows.stop + 1]
        f1[: len(below)][below == ranked[rows.start : rows.start + len(below)]] = -np.inf  # a cut has all equals on one side
        if f1.max() > highest:
            best, highest = rows.start + int(f1.argmax()), float(f1.max())
    if highest < 2 * found / (2 * found + total):
        return np.inf
    return (float(ranked[best]) + (float(ranked[best + 1]) if best + 1 < len(ranked) else 0.0)) / 2


def cumulative(values: Floats) -> Iterator[tuple[slice, Doubles]]:
    """Yield the cumulative sum of values [M] part by part, each with its places: one of all labels would be a large table."""
    before = 0.0
    for rows in slices_of(len(values), CELLS):
        sums = before + values[rows].cumsum(dtype=np.float64)
        yield rows, sums
        before = sums[-1]


def lowest_cut(confidence: Floats, low: Callable[[float, bool], float], precision: float) -> float:
    """Return the lowest cut of confidences [M] whose precision is at least this by the lower end of its interval; inf: none.

    Cuts are tried in a fixed order, the strictest first, and the first failure ends it: the chance of a wrong answer is that of a
    single interval. `low(cut, is_best_case)` is the lower end; the order begins where it would be enough in the best case.
    """
    ranked = np.sort(confidence)[::-1]
    found, has_begun = np.inf, False
    for count in np.unique(np.geomspace(1, max(len(ranked), 1), CUTS).astype(int)) if len(ranked) else ():
        cut = float(ranked[count - 1])
        if not has_begun and low(cut, True) < precision:
            continue
        has_begun = True
        if low(cut, False) < precision:
            break
        found = cut
    return found


class ClaimMeasurement:
    """Precision and recall above any cut, by held-out confidences [N, C] of the fully labelled images of a target.

    `to_complete` [M] are the confidences of the unknown cells of the images to complete.
    """

    def __init__(self, held_out: Floats, target: FitTarget, to_complete: Floats) -> None:
        self.held_out, self.target, self.to_complete = held_out, target, to_complete
        self.bootstrap = ImageBootstrap(len(held_out), seed_for(0, "claims"))
        self.recall_bootstrap = ImageBootstrap(len(held_out), seed_for(0, "recall"), RECALL_WORTH)

    def claim(self, cut: float) -> MeasuredClaim:
        """Return what is claimed about the labels above a cut."""
        wanted = self.target.positive_weight.sum(1)
        hits, _ = self._above(cut)
        expected = round(float(self.to_complete.sum(dtype=np.float64)))
        return MeasuredClaim(len(self.held_out), self.precision(cut), self.recall_bootstrap.share(hits, wanted, expected))

    def precise_cut(self, precision: float) -> float:
        """Return the lowest cut whose precision is at least this by the lower end of its interval; inf: none is sure to be."""

        def low(cut: float, is_best_case: bool) -> float:
            return self.precision(cut, lambda hits, claims: claims if is_best_case else hits).low

        return lowest_cut(self.to_complete, low, precision)

    def precision(self, cut: float, hits_of: Callable[[Doubles, Doubles], Doubles] = lambda hits, claims: hits) -> Interval:
        """Return the precision of the labels above a cut; `hits_of` may suppose other hits [N] than those that were counted."""
        hits, claims = self._above(cut)
        return self.bootstrap.share(hits_of(hits, claims), claims, int((self.to_complete >= cut).sum()))

    def absences(self, cut: float) -> "AbsentClaim":
        """Return what is claimed about the absences up to a cut."""
        given, wanted = self.held_out <= cut, self.target.positive_weight.sum(1)
        wrong, cells = (self.target.positive_weight * given).sum(1), (self.target.cell_weight * given).sum(1)
        precision = self.bootstrap.share(cells - wrong, cells, int((self.to_complete <= cut).sum()))
        return AbsentClaim(
            self.recall_bootstrap.share(wrong, wanted, round(float(self.to_complete.sum(dtype=np.float64)))), precision
        )

    def _above(self, cut: float) -> tuple[Doubles, Doubles]:
        """Return the weights of right and of all labels above the cut, per image [N]."""
        given = self.held_out >= cut
        return (self.target.positive_weight * given).sum(1), (self.target.cell_weight * given).sum(1)


def absence_cut(confidence: Floats, target: FitTarget, max_lost: float) -> tuple[float, float]:
    """Return the greatest confidence of an absence, and the share of the labels to find that is lost among absences.

    `confidence` [N, C] is that of the target's images. The share is at most `max_lost` even if one label more were lost (with few
    labels to find, no absence is sure enough: -inf).
    """
    order = np.argsort(confidence, axis=None, kind="stable")
    values, weight = confidence.ravel()[order], target.positive_weight.ravel()[order]
    total = weight.sum()
    if total <= 0:
        return -np.inf, 0.0
    lost = weight.cumsum() / total
    labels = total**2 / (weight**2).sum()  # of equal weight, that would tell as much
    is_last = np.append(values[1:] > values[:-1], True)  # along with all that equal it
    fine = np.flatnonzero(((lost * labels + 1) / (labels + 2) <= max_lost) & is_last)
    return (float(values[fine[-1]]), float(lost[fine[-1]])) if len(fine) else (-np.inf, 0.0)


def expected_claim(proposed: Floats, target: FitTarget, observed: float) -> ExpectedClaim:
    """Return what is expected of proposals with these confidences [M]; `observed` is the mean number of labels seen per image."""
    counted = max(int((target.cell_weight > 0).any(1).sum()), 1)
    to_find = target.to_find / counted
    more = max(MORE, MOST_HIDDEN / max(to_find, 1e-9))
    # That there are more labels than the predictors find does not say that they are among those with the highest scores.
    fewer = FEWER * min(target.found / max(target.to_find, 1e-9), 1.0)

    def mean(factor: float) -> float:
        # With that many times as many labels to find, a confidence p becomes 1 - (1 - p) ** factor.
        return float(1 - ((1 - proposed) ** factor).mean(dtype=np.float64)) if len(proposed) else 0.0

    return ExpectedClaim(mean(1), mean(fewer), mean(more), observed + fewer * to_find, observed + more * to_find)
