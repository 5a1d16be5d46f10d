"""Weighing witnesses: from what each says of a label to how sure it is that an image has it, and to what is proposed.

The weights are fitted on images whose labels no witness was told. Where these are fully labelled, some of their labels are taken
for observed, as in the images to complete, and the others are what there is to find. Where they are not, each observed label
stands in for those of its image that were not observed (`aevlp.data.prevalence`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from aevlp.data.dataset import Labels
from aevlp.data.prevalence import Floats, estimated_positive_weight, informative_rows
from aevlp.training.calibration import Logistic, fit_logistic, logit
from aevlp.training.thresholds import threshold

Flags = npt.NDArray[np.bool_]
Said = Mapping[str, Floats]
"""Witness -> its scores [N, C], 0 to 1."""
PARTS = 5  # of the images: each is judged by weights fitted on the others
LOWEST = 0.05  # share of the labels that are there which a witness alone may speak against; another must agree


@dataclass(frozen=True)
class Question:
    """Labels to find: `mass` [N, C] of positives among the cells that are `counted` [N, C]."""

    mass: npt.NDArray[np.float64]
    counted: Flags
    basis: Literal["complete", "estimated"]

    def fit(self, features: npt.NDArray[np.float64]) -> Logistic:
        """The regression of the answer on features [N, C, F]."""
        if self.basis == "complete":
            return fit_logistic(features, self.mass, self.counted - self.mass, per_class=True)
        # Positives against all cells that may be one: the odds are the share of positives among these.
        return replace(fit_logistic(features, self.mass, self.counted.astype(np.float64), per_class=True), is_share=True)

    def part(self, rows: npt.NDArray[np.intp]) -> Question:
        """The question about some of the images."""
        return Question(self.mass[rows], self.counted[rows], self.basis)


@dataclass(frozen=True)
class Weighing:
    """How witnesses are weighed, and from which confidence on a label is proposed, or its absence."""

    together: Logistic
    alone: Mapping[str, Logistic]
    propose: float  # at least; inf: nothing is
    deny: float  # at most; -inf: nothing is
    doubt: Mapping[str, float]  # witness -> how sure it is alone, at most, where it speaks against an observed label
    basis: Literal["complete", "estimated"]
    to_find: float  # labels, in the images that the witnesses were weighed on
    precision: float  # of what is proposed there, by weights fitted without them, 0 to 1
    recall: float

    def confidence(self, said: Said) -> npt.NDArray[np.float64]:
        """Float64 [N, C]: of all witnesses together."""
        return self.together(_features(said, tuple(self.alone)))

    def opinions(self, said: Said) -> dict[str, npt.NDArray[np.float64]]:
        """Witness -> float64 [N, C]: how sure it would be alone."""
        return {name: fitted(_features(said, (name,))) for name, fitted in self.alone.items()}


def question(observed: Labels, truth: Labels) -> Question:
    """What is to find in fully labelled images [N, C] of which some labels are taken for observed."""
    counted = observed == 0
    return Question(((truth == 1) & counted).astype(np.float64), counted, "complete")


def estimated_question(said: Said, observed: Labels, expected_positives: float | None) -> Question:
    """What is to find in images of which only some labels [N, C] are observed."""
    features = _features(said, tuple(said))
    tells = informative_rows(observed)[:, None]

    def found(mass: npt.NDArray[np.float64]) -> Flags:
        may_be = (observed != -1) & tells
        confidence = Question(mass, may_be, "estimated").fit(features)(features)
        result: Flags = confidence >= threshold(confidence.ravel(), mass.ravel(), "f1", counted=may_be.ravel())
        return result

    mass = estimated_positive_weight(observed, found, expected_positives)
    # Of what an observed label stands for, it is itself a part; the others are to be found.
    known = (observed == 1).sum()
    return Question(mass * (1 - known / max(mass.sum(), known, 1)), (observed == 0) & tells, "estimated")


def weigh(said: Said, asked: Question, *, min_precision: float | None, min_negative_precision: float) -> Weighing:
    """The weighing that answers a question best, for what was said of the same images.

    Labels are proposed for the best F1 or, with `min_precision`, as many as that precision allows; absences as many as
    `min_negative_precision` allows.
    """
    witnesses, each = tuple(said), [(name,) for name in said]
    fitted = {names: asked.fit(_features(said, names)) for names in {witnesses, *each}}
    held_out = {names: _held_out(said, names, asked) for names in fitted}
    confidence = held_out[witnesses]
    propose = _propose(confidence, asked, min_precision)
    given = (confidence >= propose) & asked.counted
    # The mass stands on observed labels where it is estimated: there they are found or not in place of others.
    hits = float(asked.mass[confidence >= propose].sum())
    return Weighing(
        together=fitted[witnesses],
        alone={name: fitted[name,] for name in witnesses},
        propose=propose,
        deny=min(_deny(confidence, asked, min_negative_precision), np.nextafter(propose, -np.inf)),
        doubt={name: _doubt(held_out[name,], asked, min_negative_precision) for name in witnesses},
        basis=asked.basis,
        to_find=float(asked.mass.sum()),
        precision=min(hits / given.sum(), 1.0) if given.any() else 1.0,
        recall=hits / asked.mass.sum() if asked.mass.any() else 0.0,
    )


def _features(said: Said, witnesses: Sequence[str]) -> npt.NDArray[np.float64]:
    return np.stack([logit(said[name]) for name in witnesses], axis=-1)


def _held_out(said: Said, witnesses: Sequence[str], asked: Question) -> npt.NDArray[np.float64]:
    """Confidences [N, C], each image's by weights that were fitted without it."""
    features = _features(said, witnesses)
    confidence = np.empty(asked.mass.shape)
    for own, others in _parts(len(confidence)):
        confidence[own] = asked.part(others).fit(features[others])(features[own])
    return confidence


def _parts(count: int) -> Iterator[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """(the rows of a part, all other rows) of so many; a single one has no others but itself."""
    part = np.arange(count) % PARTS
    for k in range(min(PARTS, count)):
        yield np.flatnonzero(part == k), np.flatnonzero((part != k) | (count == 1))


def _propose(confidence: npt.NDArray[np.float64], asked: Question, min_precision: float | None) -> float:
    """The least confidence of a proposal."""
    values, mass, counted = confidence.ravel(), asked.mass.ravel(), asked.counted.ravel()
    if not mass.any():
        return np.inf
    if min_precision is None:
        return threshold(values, mass, "f1", counted=counted)
    cut = threshold(values, mass, "precision", min_precision, counted)
    given = (values >= cut) & counted
    is_reached = given.any() and mass[values >= cut].sum() >= min_precision * given.sum() - 1e-9
    return cut if is_reached else np.inf


def _deny(confidence: npt.NDArray[np.float64], asked: Question, precision: float) -> float:
    """The highest confidence up to which a label is said to be absent: few of these are positive."""
    values, wrong, given = _rising(confidence, asked)
    return _last(values, (wrong <= (1 - precision) * given + 1e-9) & (given > 0))


def _doubt(confidence: npt.NDArray[np.float64], asked: Question, precision: float) -> float:
    """The highest confidence up to which an observed label is doubted: few of the labels that are there are given so little.

    That few absences are wrong would not do: where labels are rare, nearly all cells can be called absent, true labels too.
    """
    values, wrong, _ = _rising(confidence, asked)
    return min(_last(values, wrong <= LOWEST * wrong[-1]), _deny(confidence, asked, precision)) if wrong[-1] else -np.inf


def _rising(confidence: npt.NDArray[np.float64], asked: Question) -> tuple[npt.NDArray[np.float64], ...]:
    """(confidences in rising order, the mass up to each, the cells counted up to each)."""
    order = np.argsort(confidence.ravel(), kind="stable")
    return confidence.ravel()[order], np.cumsum(asked.mass.ravel()[order]), np.cumsum(asked.counted.ravel()[order])


def _last(values: npt.NDArray[np.float64], is_fine: Flags) -> float:
    """The highest of rising values that is fine, with all that equal it; -inf: none."""
    fine = np.flatnonzero(is_fine & np.append(values[1:] > values[:-1], True))
    return float(values[fine[-1]]) if len(fine) else -np.inf
