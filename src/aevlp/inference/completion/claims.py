"""The cut above which labels are proposed, and what can be said about the precision and recall of the new labels.

On fully labelled images that imitate the images to complete, both are measured: the confidences of these images come from fits
without them, and the cut for the best F1 is chosen by the confidences of the images to complete. Without such images nothing is
measured: the mean confidence is the expected precision, and it is as uncertain as the number of labels per image.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aevlp.core.seeds import seed_for
from aevlp.inference.completion.fusion import Doubles, FitTarget
from aevlp.training.intervals import ImageBootstrap, Interval

FEWER, MORE = 1 / 3, 3.0  # plausible numbers of labels to find, as multiples of the estimate
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
        return (
            f"expected precision {self.precision:.2f}, unverified ({self.low:.2f} to {self.high:.2f} if an image has "
            f"{self.fewest:.2f} to {self.most:.2f} labels)"
        )


Claim = MeasuredClaim | ExpectedClaim


def best_f1_cut(confidence: Doubles) -> float:
    """Return the cut with the best expected F1 among cells of these confidences [M]; inf: there is nothing to find."""
    ranked = np.sort(confidence)[::-1]
    if not len(ranked) or ranked[0] <= 0:
        return np.inf
    f1 = 2 * ranked.cumsum() / (np.arange(1, len(ranked) + 1) + ranked.sum())
    best = int(np.where(np.append(ranked[1:] < ranked[:-1], True), f1, -np.inf).argmax())
    return float(ranked[best] + (ranked[best + 1] if best + 1 < len(ranked) else 0.0)) / 2


class ClaimMeasurement:
    """Precision and recall above any cut, by held-out confidences [N, C] of the fully labelled images of a target.

    `to_complete` [M] are the confidences of the unknown cells of the images to complete.
    """

    def __init__(self, held_out: Doubles, target: FitTarget, to_complete: Doubles) -> None:
        self.held_out, self.target, self.to_complete = held_out, target, to_complete
        self.bootstrap = ImageBootstrap(len(held_out), np.random.default_rng(seed_for(0, "claims")))

    def claim(self, cut: float) -> MeasuredClaim:
        """Return what is claimed about the labels above a cut."""
        wanted = self.target.positive_weight.sum(1)
        hits, _ = self._above(cut)
        expected = round(float(self.to_complete.sum()))
        return MeasuredClaim(len(self.held_out), self._precision(cut), self.bootstrap.share(hits, wanted, expected))

    def precise_cut(self, precision: float) -> float:
        """Return the lowest cut whose precision is at least this by the lower end of its interval; inf: none is sure to be.

        Cuts are tried in a fixed order, the strictest first, and the first failure ends it: the chance of a wrong answer is that
        of a single interval. The order begins where a record without a miss would be enough.
        """
        ranked = np.sort(self.to_complete)[::-1]
        found, has_begun = np.inf, False
        for count in np.unique(np.geomspace(1, max(len(ranked), 1), CUTS).astype(int)) if len(ranked) else ():
            cut = float(ranked[count - 1])
            if not has_begun and self._precision(cut, lambda hits, claims: claims).low < precision:
                continue
            has_begun = True
            if self._precision(cut).low < precision:
                break
            found = cut
        return found

    def _precision(self, cut: float, hits_of: Callable[[Doubles, Doubles], Doubles] = lambda hits, claims: hits) -> Interval:
        hits, claims = self._above(cut)
        return self.bootstrap.share(hits_of(hits, claims), claims, int((self.to_complete >= cut).sum()))

    def _above(self, cut: float) -> tuple[Doubles, Doubles]:
        """Return the weights of right and of all labels above the cut, per image [N]."""
        given = self.held_out >= cut
        return (self.target.positive_weight * given).sum(1), (self.target.cell_weight * given).sum(1)


def expected_claim(proposed: Doubles, target: FitTarget, observed: float) -> ExpectedClaim:
    """Return what is expected of proposals with these confidences [M]; `observed` is the mean number of labels seen per image."""
    counted = (target.cell_weight > 0).any(1).sum()
    to_find = target.to_find / max(int(counted), 1)

    def mean(factor: float) -> float:
        # With that many times as many labels to find, a confidence p becomes 1 - (1 - p) ** factor.
        return float(1 - ((1 - proposed) ** factor).mean()) if len(proposed) else 0.0

    return ExpectedClaim(mean(1), mean(FEWER), mean(MORE), observed + FEWER * to_find, observed + MORE * to_find)
