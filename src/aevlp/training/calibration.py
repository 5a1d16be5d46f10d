"""Calibration: a logistic regression turns probabilities into ones that hold."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from aevlp.core.options import AtLeast
from aevlp.data.regression import Floats, Logistic, fit_logistic, logit, sigmoid

BINS = 10


@dataclass(frozen=True)
class Reliability:
    """The distance between probabilities and the share of positives among the cells with that probability."""

    error: float  # the mean distance over all cells, 0..1 (expected calibration error)
    bins: tuple[tuple[float, float, int], ...]  # mean probability, share of positives, cells; of equal widths, none empty


def reliability(probabilities: Floats, there: npt.NDArray[np.bool_]) -> Reliability:
    """Return the reliability of probabilities [N, C] of labels that are there or not [N, C]."""
    p = probabilities.ravel().astype(np.float64)
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    cells = np.bincount(place, minlength=BINS)
    said, true = np.bincount(place, p, BINS), np.bincount(place, there.ravel(), BINS)
    filled = [(said[b] / cells[b], true[b] / cells[b], int(cells[b])) for b in range(BINS) if cells[b]]
    error = sum(abs(mean - share) * n for mean, share, n in filled) / len(p)
    return Reliability(float(error), tuple((float(mean), float(share), n) for mean, share, n in filled))


@dataclass(frozen=True)
class Calibration:
    """Platt scaling: p becomes sigmoid(slope * logit(p) + offset), the same for all classes, so that rankings do not change."""

    slope: Annotated[float, AtLeast(0)]
    offset: float
    before: Reliability
    after: Reliability  # on images that it was not fitted to

    def __call__(self, probabilities: Floats) -> npt.NDArray[np.float64]:
        """Calibrated probabilities of any shape."""
        return sigmoid(self.slope * logit(probabilities) + self.offset)


def fit_calibration(probabilities: Floats, there: npt.NDArray[np.bool_]) -> Calibration:
    """Fit the calibration of probabilities [N, C] of labels that are there or not [N, C].

    `after` is measured with each half of the images calibrated by the other half.
    """
    features = logit(probabilities)[..., None]
    held_out = np.empty(probabilities.shape)
    for half in (slice(0, None, 2), slice(1, None, 2)):
        other = slice(1 - half.start, None, 2)
        held_out[half] = _platt(features[other], there[other])(features[half])
    whole = _platt(features, there)
    return Calibration(whole.slopes[0], whole.offset, reliability(probabilities, there), reliability(held_out, there))


def _platt(features: Floats, there: npt.NDArray[np.bool_]) -> Logistic:
    """Fit with Platt's targets, slightly off 0 and 1: separable labels would need an infinite slope."""
    positives = int(there.sum())
    target = np.where(there, (positives + 1) / (positives + 2), 1 / (there.size - positives + 2))
    return fit_logistic(features, target, 1 - target)
