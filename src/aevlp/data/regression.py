"""Logistic regression of labels on scores, and what it says about the number of labels."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit
from threadpoolctl import threadpool_limits

from aevlp.data.dataset import Labels
from aevlp.data.prevalence import estimated_positive_weight, informative_rows

Floats = npt.NDArray[np.floating]
Weights = npt.NDArray[np.floating] | npt.NDArray[np.bool_]
CLASS_PENALTY = 1.0  # on a class's own offset, squared; with few examples it stays near 0
SMALLEST = 1e-7  # probability
FOUND = 0.36  # share of positives from which on labels count as found when their number is estimated


def logit(probabilities: Floats) -> npt.NDArray[np.float64]:
    """Return log(p / (1 - p)), finite for 0 and 1 too."""
    p = np.clip(probabilities.astype(np.float64), SMALLEST, 1 - SMALLEST)
    result: npt.NDArray[np.float64] = np.log(p / (1 - p))
    return result


def sigmoid(x: Floats) -> npt.NDArray[np.float64]:
    """Return 1 / (1 + exp(-x))."""
    result: npt.NDArray[np.float64] = expit(x)
    return result


@dataclass(frozen=True)
class Logistic:
    """p = sigmoid(z) for z = slopes . x + offset + the class's own offset."""

    slopes: tuple[float, ...]  # F
    offset: float
    of_class: tuple[float, ...] | None  # C; None: the same for all classes
    at_most: float = 1.0  # greatest probability

    def __call__(self, features: Floats) -> npt.NDArray[np.float64]:
        """Probabilities [N, C] of features [N, C, F]."""
        z = features @ np.array(self.slopes) + self.offset + (0.0 if self.of_class is None else np.array(self.of_class))
        return np.minimum(sigmoid(z), self.at_most)


def fit_logistic(features: Floats, positive: Weights, negative: Weights, *, per_class: bool = False) -> Logistic:
    """Fit the regression to features [N, C, F] of cells that count as positive and as negative with these weights [N, C].

    Slopes are constrained to be non-negative.
    """
    x, positive, negative = (values.astype(np.float64) for values in (features, positive, negative))
    _, classes, width = x.shape
    cells = max(float(positive.sum() + negative.sum()), 1e-9)

    def objective(parameters: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        own = parameters[width + 1 :]
        z = x @ parameters[:width] + parameters[width] + (own if per_class else 0.0)
        error = (positive + negative) * sigmoid(z) - positive
        value = float((positive * np.logaddexp(0, -z) + negative * np.logaddexp(0, z)).sum() + CLASS_PENALTY * (own**2).sum())
        gradient = np.concatenate([np.einsum("nc,ncf->f", error, x), [error.sum()], 2 * CLASS_PENALTY * own])
        if per_class:
            gradient[width + 1 :] += error.sum(0)
        return value / cells, gradient / cells

    share = np.clip(positive.sum() / cells, 1e-6, 1 - 1e-6)
    start = np.zeros(width + 1 + (classes if per_class else 0))
    start[width] = np.log(share / (1 - share))
    bounds = [(0.0, None)] * width + [(None, None)] * (len(start) - width)
    how = {"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9}
    with threadpool_limits(1):  # the vectors are short: threads would only wait for each other
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=how).x
    own = tuple(map(float, found[width + 1 :])) if per_class else None
    return Logistic(tuple(map(float, found[:width])), float(found[width]), own)


def positive_weight_by_scores(
    features: Floats, observed: Labels, expected_positives: float | None = None
) -> npt.NDArray[np.float64]:
    """Return the positive weight [N, C] of observed labels [N, C], by the features [N, C, F] of all cells.

    A cell counts as found if a regression of positives against all cells that may be positive makes it likely enough. Weak scores
    seldom do, so that they find few labels rather than many wrong ones.
    """
    may_be = (observed != -1) & informative_rows(observed)[:, None]

    def found(weight: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        # Positives against all cells: the odds are the share of positives among the cells.
        odds = np.exp(logit(fit_logistic(features, weight, may_be, per_class=True)(features)))
        result: npt.NDArray[np.bool_] = odds >= FOUND
        return result

    return estimated_positive_weight(observed, found, expected_positives)
