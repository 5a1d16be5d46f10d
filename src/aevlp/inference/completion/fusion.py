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

from aevlp.core.chunks import slices_of
from aevlp.data.dataset import Labels
from aevlp.data.prevalence import Floats, hidden_like, informative_rows
from aevlp.data.regression import Logistic, fit_logistic, logit, positive_weight_by_scores

Flags = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Scores = Mapping[str, Floats]
"""Predictor -> its scores [N, C], 0 to 1."""
CHUNK = 4096  # images, whose scores are in float64 at a time
PARTS = 5  # cross-validation: the images of a part are scored by a fusion fitted on the other parts
TOGETHER = "together"
SUREST = 0.95  # greatest confidence where nothing was measured
LOWEST = 0.05  # share of the true labels that a predictor alone may doubt; the other predictor must doubt them too


@dataclass(frozen=True)
class FitTarget:
    """Labels to find: the weight [N, C] of being positive, out of the weight [N, C] of each cell; 0: the cell does not count."""

    positive_weight: Doubles
    cell_weight: Doubles
    basis: Literal["complete", "answered", "estimated"]
    own_weight: Doubles | None = None  # positive weight by the predictors' own estimate, where the user has named another number

    @property
    def to_find(self) -> float:
        """The number of labels to find."""
        return float(self.positive_weight.sum())

    @property
    def found(self) -> float:
        """The number of labels to find by the predictors' own estimate, where there is another one."""
        return self.to_find if self.own_weight is None else float(self.own_weight.sum())

    def part(self, rows: Flags) -> "FitTarget":
        """Return the target of some images."""
        own = None if self.own_weight is None else self.own_weight[rows]
        return FitTarget(self.positive_weight[rows], self.cell_weight[rows], self.basis, own)

    def fit(self, features: Doubles) -> "Confidence":
        """Fit a regression of the target on features [N, C, F]. Slopes are constrained to be non-negative.

        An estimated positive weight stands on observed labels, whose own cells do not count. There the loss is linear: the fit is
        that of unbiased positive-unlabelled learning (du Plessis et al., 2015). It follows too many positives to certainty, so
        that its confidences are limited. Where the user names a number of labels, those that the predictors do not find may be
        among the cells with high scores or elsewhere: the confidence is the mean of both readings.
        """
        weights = [self.positive_weight] if self.own_weight is None else [self.positive_weight, self.own_weight]
        fits = [fit_logistic(features, weight, self.cell_weight - weight, per_class=True) for weight in weights]
        return Confidence(tuple(fit if self.basis == "complete" else replace(fit, at_most=SUREST) for fit in fits))


@dataclass(frozen=True)
class Confidence:
    """The mean probability of regressions on the same features."""

    fits: tuple[Logistic, ...]

    def __call__(self, features: Doubles) -> Doubles:
        """Return the confidence [N, C] of features [N, C, F]."""
        mean: Doubles = np.mean([fit(features) for fit in self.fits], axis=0)
        return mean


@dataclass(frozen=True)
class Fusion:
    """Regressions from scores to confidences: of all predictors together, and of each alone."""

    together: Confidence
    alone: Mapping[str, Confidence]

    def confidence(self, scores: Scores) -> Singles:
        """Return the confidence of all predictors together, float32 [N, C]."""
        return _in_parts(self.together, scores, tuple(self.alone))

    def confidence_alone(self, scores: Scores) -> dict[str, Singles]:
        """Return predictor -> its confidence alone, float32 [N, C], for each that has scores."""
        return {name: _in_parts(self.alone[name], scores, (name,)) for name in scores}


def complete_fit_target(observed: Labels, truth: Labels, rng: np.random.Generator) -> FitTarget:
    """Return the labels to find in fully labelled images [M, C] that imitate images observed in part [N, C]."""
    return FitTarget(*hidden_like(observed, truth, rng), "complete")


def estimated_fit_target(scores: Scores, observed: Labels, expected_positives: float | None) -> FitTarget:
    """Estimate the labels to find in images of which only some labels [N, C] are observed."""
    features, known = _features(scores, tuple(scores)), (observed == 1).sum()

    def hidden(expected: float | None) -> Doubles:
        # An observed label stands for itself and for others; only the others are to be found.
        weight: Doubles = positive_weight_by_scores(features, observed, expected)
        return weight * float(1 - known / max(weight.sum(), known, 1))

    cells = ((observed == 0) & informative_rows(observed)[:, None]).astype(np.float64)
    return FitTarget(hidden(expected_positives), cells, "estimated", None if expected_positives is None else hidden(None))


def answered_fit_target(observed: Labels, answered: Flags) -> FitTarget:
    """Return the labels that people have answered, as cells [N, C] to fit confidences to.

    They were chosen by scores, and not by what is there: at a given score, they are like the cells that nobody has answered.
    """
    return FitTarget((answered & (observed == 1)).astype(np.float64), answered.astype(np.float64), "answered")


def fit_fusion(scores: Scores, target: FitTarget) -> tuple[Fusion, dict[str, Doubles]]:
    """Fit the fusion of predictors' scores to a target about the same images.

    Also return held-out confidences [N, C], each image's by a fit without it: predictor -> its confidence alone, and `TOGETHER`.
    """
    predictors = {TOGETHER: tuple(scores), **{name: (name,) for name in scores}}
    fitted = {key: target.fit(_features(scores, names)) for key, names in predictors.items()}
    held_out = {key: _held_out(scores, names, target) for key, names in predictors.items()}
    return Fusion(fitted.pop(TOGETHER), fitted), held_out


def greatest_doubted(confidence: Doubles, target: FitTarget, precision: float) -> float:
    """Return the greatest confidence of a doubted label; -inf: none is doubted.

    Few of the true labels have so little confidence, and a share `precision` of the cells with so little is absent. The latter
    alone would not do: if labels are rare, nearly all cells can be called absent, true labels too.
    """
    order = np.argsort(confidence.ravel(), kind="stable")
    values = confidence.ravel()[order]
    wrong, cells = (weight.ravel()[order].cumsum() for weight in (target.positive_weight, target.cell_weight))
    is_fine = (wrong <= LOWEST * wrong[-1]) & (wrong <= (1 - precision) * cells + 1e-9) & (cells > 0) & bool(wrong[-1])
    fine = np.flatnonzero(is_fine & np.append(values[1:] > values[:-1], True))  # along with all that equal it
    return float(values[fine[-1]]) if len(fine) else -np.inf


def rank_of_classes(values: Floats) -> npt.NDArray[np.intp]:
    """Return the rank 0..C-1 of each class within its image [N, C], the least value first; equal values keep their order."""
    return np.argsort(np.argsort(values, axis=1, kind="stable"), axis=1)


def _features(scores: Scores, predictors: Sequence[str]) -> Doubles:
    return np.stack([logit(scores[name]) for name in predictors], axis=-1)


def _in_parts(fitted: Confidence, scores: Scores, predictors: Sequence[str]) -> Singles:
    """Return the confidence float32 [N, C], for some images at a time: the features of all would be many tables in float64."""
    found = np.empty(scores[predictors[0]].shape, np.float32)
    for part in slices_of(len(found), CHUNK):
        found[part] = fitted(_features({name: scores[name][part] for name in predictors}, predictors))
    return found


def _held_out(scores: Scores, predictors: Sequence[str], target: FitTarget) -> Doubles:
    """Return confidences [N, C], each image's by a fit without it."""
    features = _features(scores, predictors)
    confidence = np.empty(target.positive_weight.shape)
    part = np.arange(len(confidence)) % PARTS
    for k in np.unique(part):
        own, others = part == k, (part != k) | (len(part) == 1)  # a single image is fitted on itself
        confidence[own] = target.part(others).fit(features[others])(features[own])
    return confidence
