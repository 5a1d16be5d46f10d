"""Fusion of predictors: from each predictor's score of a label to one confidence, and to the labels that are proposed.

The fusion is fitted on images whose labels no predictor was trained on. If these are fully labelled, some of their labels count
as observed, as in the images to complete, and the others are the target. If they are not, each observed label stands in for the
labels of its image that were not observed (`aevlp.data.prevalence`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from aevlp.data.dataset import Labels
from aevlp.data.prevalence import Floats, hidden_like, informative_rows
from aevlp.training.calibration import Logistic, fit_logistic, logit, positive_weight_by_scores

Flags = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Scores = Mapping[str, Floats]
"""Predictor -> its scores [N, C], 0 to 1."""
PARTS = 5  # cross-validation: the images of a part are scored by a fusion fitted on the other parts
TOGETHER = "together"
SUREST = 0.95  # greatest confidence where nothing was measured
LOWEST = 0.05  # share of the true labels that a predictor alone may doubt; the other predictor must doubt them too


@dataclass(frozen=True)
class FitTarget:
    """Labels to find: the weight [N, C] of being positive, out of the weight [N, C] of each cell; 0: the cell does not count."""

    positive_weight: Doubles
    cell_weight: Doubles
    basis: Literal["complete", "estimated"]

    @property
    def to_find(self) -> float:
        """The number of labels to find."""
        return float(self.positive_weight.sum())

    def fit(self, features: Doubles) -> Logistic:
        """Fit a regression of the target on features [N, C, F]. Slopes are constrained to be non-negative.

        An estimated positive weight stands on observed labels, whose own cells do not count. There the loss is linear: the fit is
        that of unbiased positive-unlabelled learning (du Plessis et al., 2015). It follows too many positives to certainty, so
        that its confidences are limited.
        """
        fitted = fit_logistic(features, self.positive_weight, self.cell_weight - self.positive_weight, per_class=True)
        return fitted if self.basis == "complete" else replace(fitted, at_most=SUREST)


@dataclass(frozen=True)
class Fusion:
    """Regressions from scores to confidences: of all predictors together, and of each alone."""

    together: Logistic
    alone: Mapping[str, Logistic]

    def confidence(self, scores: Scores) -> Doubles:
        """Return the confidence of all predictors together, float64 [N, C]."""
        return self.together(_features(scores, tuple(self.alone)))

    def confidence_alone(self, scores: Scores) -> dict[str, Doubles]:
        """Return predictor -> its confidence alone, float64 [N, C]."""
        return {name: fitted(_features(scores, (name,))) for name, fitted in self.alone.items()}


def complete_fit_target(observed: Labels, truth: Labels, rng: np.random.Generator) -> FitTarget:
    """Return the labels to find in fully labelled images [M, C] that imitate images observed in part [N, C]."""
    return FitTarget(*hidden_like(observed, truth, rng), "complete")


def estimated_fit_target(scores: Scores, observed: Labels, expected_positives: float | None) -> FitTarget:
    """Estimate the labels to find in images of which only some labels [N, C] are observed."""
    weight = positive_weight_by_scores(_features(scores, tuple(scores)), observed, expected_positives)
    # An observed label stands for itself and for others; only the others are to be found.
    known = (observed == 1).sum()
    hidden = weight * (1 - known / max(weight.sum(), known, 1))
    return FitTarget(hidden, ((observed == 0) & informative_rows(observed)[:, None]).astype(np.float64), "estimated")


def fit_fusion(scores: Scores, target: FitTarget) -> tuple[Fusion, dict[str, Doubles]]:
    """Fit the fusion of predictors' scores to a target about the same images.

    Also return held-out confidences [N, C], each image's by a fit without it: predictor -> its confidence alone, and `TOGETHER`.
    """
    predictors = {TOGETHER: tuple(scores), **{name: (name,) for name in scores}}
    fitted = {key: target.fit(_features(scores, names)) for key, names in predictors.items()}
    held_out = {key: _held_out(scores, names, target) for key, names in predictors.items()}
    return Fusion(fitted.pop(TOGETHER), fitted), held_out


def greatest_denied(confidence: Doubles, target: FitTarget, precision: float) -> float:
    """Return the greatest confidence up to which few enough labels are positive that all can be proposed to be absent."""
    values, wrong, given = _rising(confidence, target)
    return _last(values, (wrong <= (1 - precision) * given + 1e-9) & (given > 0))


def greatest_doubted(confidence: Doubles, target: FitTarget, precision: float) -> float:
    """Return the greatest confidence of a doubted label: few of the true labels have so little confidence.

    A precision of the absences alone would not do: if labels are rare, nearly all cells can be called absent, true labels too.
    """
    values, wrong, _ = _rising(confidence, target)
    if not wrong[-1]:
        return -np.inf
    return min(_last(values, wrong <= LOWEST * wrong[-1]), greatest_denied(confidence, target, precision))


def _features(scores: Scores, predictors: Sequence[str]) -> Doubles:
    return np.stack([logit(scores[name]) for name in predictors], axis=-1)


def _held_out(scores: Scores, predictors: Sequence[str], target: FitTarget) -> Doubles:
    """Return confidences [N, C], each image's by a fit without it."""
    features = _features(scores, predictors)
    confidence = np.empty(target.positive_weight.shape)
    part = np.arange(len(confidence)) % PARTS
    for k in np.unique(part):
        own, others = part == k, (part != k) | (len(part) == 1)  # a single image is fitted on itself
        weights = target.positive_weight[others], target.cell_weight[others]
        confidence[own] = FitTarget(*weights, target.basis).fit(features[others])(features[own])
    return confidence


def _rising(confidence: Doubles, target: FitTarget) -> tuple[Doubles, ...]:
    """Return (confidences in rising order, the positive weight up to each, the weight of all cells up to each)."""
    order = np.argsort(confidence.ravel(), kind="stable")
    weight, cells = (values.ravel()[order].cumsum() for values in (target.positive_weight, target.cell_weight))
    return confidence.ravel()[order], weight, cells


def _last(values: Doubles, is_fine: Flags) -> float:
    """Return the greatest of rising values that is fine, along with all that equal it; -inf: none is."""
    fine = np.flatnonzero(is_fine & np.append(values[1:] > values[:-1], True))
    return float(values[fine[-1]]) if len(fine) else -np.inf
