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
from aevlp.data.prevalence import Floats, estimated_positive_weight, informative_rows
from aevlp.training.calibration import Logistic, fit_logistic, logit
from aevlp.training.thresholds import threshold

Flags = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Scores = Mapping[str, Floats]
"""Predictor -> its scores [N, C], 0 to 1."""
PARTS = 5  # cross-validation: the images of a part are scored by a fusion fitted on the other parts
LOWEST = 0.05  # share of the true labels that a predictor alone may doubt; the other predictor must doubt them too


@dataclass(frozen=True)
class FitTarget:
    """Labels to find: the weight [N, C] of being positive, among the cells that are `counted` [N, C]."""

    positive_weight: Doubles
    counted: Flags
    basis: Literal["complete", "estimated"]

    def fit(self, features: Doubles) -> Logistic:
        """Fit a regression of the target on features [N, C, F]. Slopes are constrained to be non-negative."""
        if self.basis == "complete":
            return fit_logistic(features, self.positive_weight, self.counted - self.positive_weight, per_class=True)
        # Positives against all cells that may be positive: the odds are the share of positives among these.
        all_cells = self.counted.astype(np.float64)
        return replace(fit_logistic(features, self.positive_weight, all_cells, per_class=True), is_share=True)


@dataclass(frozen=True)
class Fusion:
    """Regressions from scores to confidences, and the confidences at which a label, or its absence, is proposed."""

    together: Logistic
    alone: Mapping[str, Logistic]
    propose: float  # least confidence of a proposed label; inf: none is proposed
    deny: float  # greatest confidence of a proposed absence; -inf: none is proposed
    doubt: Mapping[str, float]  # predictor -> its greatest confidence alone at which it doubts an observed label
    basis: Literal["complete", "estimated"]
    to_find: float  # labels to find in the images that the fusion was fitted on
    precision: float  # of the proposals in those images, cross-validated, 0 to 1
    recall: float

    def confidence(self, scores: Scores) -> Doubles:
        """Return the confidence of all predictors together, float64 [N, C]."""
        return self.together(_features(scores, tuple(self.alone)))

    def confidence_alone(self, scores: Scores) -> dict[str, Doubles]:
        """Return predictor -> its confidence alone, float64 [N, C]."""
        return {name: fitted(_features(scores, (name,))) for name, fitted in self.alone.items()}


def fit_target(observed: Labels, truth: Labels) -> FitTarget:
    """Return the labels to find in fully labelled images [N, C] of which some labels count as observed."""
    counted = observed == 0
    return FitTarget(((truth == 1) & counted).astype(np.float64), counted, "complete")


def estimated_fit_target(scores: Scores, observed: Labels, expected_positives: float | None) -> FitTarget:
    """Estimate the labels to find in images of which only some labels [N, C] are observed."""
    features = _features(scores, tuple(scores))
    informative = informative_rows(observed)[:, None]

    def found(weight: Doubles) -> Flags:
        may_be = (observed != -1) & informative
        confidence = FitTarget(weight, may_be, "estimated").fit(features)(features)
        result: Flags = confidence >= threshold(confidence.ravel(), weight.ravel(), "f1", counted=may_be.ravel())
        return result

    weight = estimated_positive_weight(observed, found, expected_positives)
    # An observed label stands for itself and for others; only the others are to be found.
    known = (observed == 1).sum()
    return FitTarget(weight * (1 - known / max(weight.sum(), known, 1)), (observed == 0) & informative, "estimated")


def fit_fusion(scores: Scores, target: FitTarget, min_precision: float | None, min_negative_precision: float) -> Fusion:
    """Fit the fusion of predictors' scores to a target about the same images.

    Labels are proposed for the best F1 or, with `min_precision`, as many as that precision allows; absences as many as
    `min_negative_precision` allows.
    """
    predictors, each = tuple(scores), [(name,) for name in scores]
    fitted = {names: target.fit(_features(scores, names)) for names in {predictors, *each}}
    held_out = {names: _held_out(scores, names, target) for names in fitted}
    confidence = held_out[predictors]
    propose = _propose(confidence, target, min_precision)
    given = (confidence >= propose) & target.counted
    # An estimated weight stands on the observed labels, so these count as hits in place of the others.
    hits = float(target.positive_weight[confidence >= propose].sum())
    return Fusion(
        together=fitted[predictors],
        alone={name: fitted[name,] for name in predictors},
        propose=propose,
        deny=min(_deny(confidence, target, min_negative_precision), np.nextafter(propose, -np.inf)),
        doubt={name: _doubt(held_out[name,], target, min_negative_precision) for name in predictors},
        basis=target.basis,
        to_find=float(target.positive_weight.sum()),
        precision=min(hits / given.sum(), 1.0) if given.any() else 1.0,
        recall=hits / target.positive_weight.sum() if target.positive_weight.any() else 0.0,
    )


def _features(scores: Scores, predictors: Sequence[str]) -> Doubles:
    return np.stack([logit(scores[name]) for name in predictors], axis=-1)


def _held_out(scores: Scores, predictors: Sequence[str], target: FitTarget) -> Doubles:
    """Return confidences [N, C], each image's by a fit without it."""
    features = _features(scores, predictors)
    confidence = np.empty(target.positive_weight.shape)
    part = np.arange(len(confidence)) % PARTS
    for k in np.unique(part):
        own, others = part == k, (part != k) | (len(part) == 1)  # a single image is fitted on itself
        target_of_others = replace(target, positive_weight=target.positive_weight[others], counted=target.counted[others])
        confidence[own] = target_of_others.fit(features[others])(features[own])
    return confidence


def _propose(confidence: Doubles, target: FitTarget, min_precision: float | None) -> float:
    """Return the least confidence of a proposed label."""
    values, weight, counted = confidence.ravel(), target.positive_weight.ravel(), target.counted.ravel()
    if not weight.any():
        return np.inf
    if min_precision is None:
        return threshold(values, weight, "f1", counted=counted)
    cut = threshold(values, weight, "precision", min_precision, counted)
    given = (values >= cut) & counted
    is_reached = given.any() and weight[values >= cut].sum() >= min_precision * given.sum() - 1e-9
    return cut if is_reached else np.inf


def _deny(confidence: Doubles, target: FitTarget, precision: float) -> float:
    """Return the greatest confidence up to which few enough labels are positive that all can be proposed to be absent."""
    values, wrong, given = _rising(confidence, target)
    return _last(values, (wrong <= (1 - precision) * given + 1e-9) & (given > 0))


def _doubt(confidence: Doubles, target: FitTarget, precision: float) -> float:
    """Return the greatest confidence of a doubted label: few of the true labels have so little confidence.

    A precision of the absences alone would not do: if labels are rare, nearly all cells can be called absent, true labels too.
    """
    values, wrong, _ = _rising(confidence, target)
    return min(_last(values, wrong <= LOWEST * wrong[-1]), _deny(confidence, target, precision)) if wrong[-1] else -np.inf


def _rising(confidence: Doubles, target: FitTarget) -> tuple[Doubles, ...]:
    """Return (confidences in rising order, the positive weight up to each, the counted cells up to each)."""
    order = np.argsort(confidence.ravel(), kind="stable")
    weight, counted = (values.ravel()[order].cumsum() for values in (target.positive_weight, target.counted))
    return confidence.ravel()[order], weight, counted


def _last(values: Doubles, is_fine: Flags) -> float:
    """Return the greatest of rising values that is fine, along with all that equal it; -inf: none is."""
    fine = np.flatnonzero(is_fine & np.append(values[1:] > values[:-1], True))
    return float(values[fine[-1]]) if len(fine) else -np.inf
