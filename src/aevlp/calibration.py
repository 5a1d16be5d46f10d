"""Calibration: numbers that rank labels become probabilities, by a logistic regression on complete or observed labels.

With `mass` 1 for a true positive and 0 elsewhere, what is minimised is the usual logistic loss. With the masses of observed
labels (`aevlp.prevalence`) it is an estimate of the same sum without bias, and as convex.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
BINS = 10
CLASS_PENALTY = 1.0  # on a class's own offset, squared; with few examples it stays near 0
SMALLEST = 1e-7  # probability


def logit(probabilities: Floats) -> npt.NDArray[np.float64]:
    """log(p / (1 - p)), finite for 0 and 1 too."""
    p = np.clip(probabilities.astype(np.float64), SMALLEST, 1 - SMALLEST)
    result: npt.NDArray[np.float64] = np.log(p / (1 - p))
    return result


def sigmoid(x: Floats) -> npt.NDArray[np.float64]:
    """1 / (1 + exp(-x))."""
    from scipy.special import expit

    result: npt.NDArray[np.float64] = expit(x)
    return result


@dataclass(frozen=True)
class Logistic:
    """p = sigmoid(slopes . x + offset + the class's own offset)."""

    slopes: tuple[float, ...]  # F
    offset: float
    of_class: tuple[float, ...] | None = None  # C; None: the same for all classes

    def __call__(self, features: Floats) -> npt.NDArray[np.float64]:
        """Probabilities [N, C] of features [N, C, F]."""
        z = features @ np.array(self.slopes) + self.offset
        return sigmoid(z if self.of_class is None else z + np.array(self.of_class))


def fit_logistic(features: Floats, mass: Floats, *, per_class: bool = False) -> Logistic:
    """The regression of mass [N, C] on features [N, C, F]; slopes are not negative: a witness's word is never turned round."""
    from scipy.optimize import minimize

    x = features.astype(np.float64)
    count, classes, width = x.shape
    cells = count * classes

    def objective(parameters: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        own = parameters[width + 1 :]
        z = x @ parameters[:width] + parameters[width] + (own if per_class else 0.0)
        error = sigmoid(z) - mass
        value = float(np.logaddexp(0, z).sum() - (mass * z).sum() + CLASS_PENALTY * (own**2).sum())
        gradient = np.concatenate([np.einsum("nc,ncf->f", error, x), [error.sum()], 2 * CLASS_PENALTY * own])
        if per_class:
            gradient[width + 1 :] += error.sum(0)
        return value / cells, gradient / cells

    share = np.clip(mass.mean(), 1e-6, 1 - 1e-6)
    start = np.zeros(width + 1 + (classes if per_class else 0))
    start[width] = np.log(share / (1 - share))
    bounds = [(0.0, None)] * width + [(None, None)] * (len(start) - width)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500, "ftol": 1e-12}).x
    own = tuple(map(float, found[width + 1 :])) if per_class else None
    return Logistic(tuple(map(float, found[:width])), float(found[width]), own)


@dataclass(frozen=True)
class Reliability:
    """How far probabilities are from the share of positives among the cells that have them."""

    error: float  # the mean distance over all cells, 0..1 (expected calibration error)
    bins: tuple[tuple[float, float, int], ...]  # mean probability, share of positives, cells; of equal widths, none empty


def reliability(probabilities: Floats, mass: Floats) -> Reliability:
    """The reliability of probabilities [N, C] against mass [N, C]."""
    p, m = probabilities.ravel().astype(np.float64), mass.ravel()
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    cells = np.bincount(place, minlength=BINS)
    said, there = np.bincount(place, p, BINS), np.bincount(place, m, BINS)
    filled = [(said[b] / cells[b], min(there[b] / cells[b], 1.0), int(cells[b])) for b in range(BINS) if cells[b]]
    error = sum(abs(mean - share) * n for mean, share, n in filled) / len(p)
    return Reliability(float(error), tuple((float(mean), float(share), n) for mean, share, n in filled))


@dataclass(frozen=True)
class Calibration:
    """Platt's: a classifier's p becomes sigmoid(slope * logit(p) + offset), for all classes alike, so that no order changes."""

    slope: float
    offset: float
    before: Reliability
    after: Reliability  # of images that it was not fitted on

    def __call__(self, probabilities: Floats) -> npt.NDArray[np.float64]:
        """Calibrated probabilities of any shape."""
        return sigmoid(self.slope * logit(probabilities) + self.offset)


def fit_calibration(probabilities: Floats, mass: Floats) -> Calibration:
    """The calibration of probabilities [N, C] on mass [N, C].

    `after` is measured with each half of the images calibrated by the other half.
    """
    features = logit(probabilities)[..., None]
    held_out = np.empty(probabilities.shape)
    for half in (slice(0, None, 2), slice(1, None, 2)):
        other = slice(1 - half.start, None, 2)
        held_out[half] = fit_logistic(features[other], mass[other])(features[half])
    whole = fit_logistic(features, mass)
    return Calibration(whole.slopes[0], whole.offset, reliability(probabilities, mass), reliability(held_out, mass))


def from_json(values: dict[str, Any]) -> Calibration:
    """A calibration from what `dataclasses.asdict` made of it."""

    def read(part: dict[str, Any]) -> Reliability:
        return Reliability(part["error"], tuple((mean, share, cells) for mean, share, cells in part["bins"]))

    return Calibration(values["slope"], values["offset"], read(values["before"]), read(values["after"]))
