"""Fusion of predictors whose errors are known: their scores are drawn from the truth."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from aevlp.data.prevalence import observed_like
from aevlp.inference.completion.fusion import _held_out, estimated_fit_target, fit_fusion, fit_target

CLASSES = 8
USUAL: dict[str, Any] = {"min_precision": None, "min_negative_precision": 0.99}
TWO = {"teacher": 1.5, "model": 2.0}


@dataclass(frozen=True)
class Drawn:
    """Images [N, C]: their labels, those that are observed, and the predictors' scores."""

    truth: np.ndarray
    observed: np.ndarray
    scores: dict[str, np.ndarray]

    @property
    def hidden(self) -> np.ndarray:
        return (self.truth == 1) & (self.observed == 0)

    @property
    def unknown(self) -> np.ndarray:
        return self.observed == 0


def drawn(images: int, strengths: dict[str, float], *, seed: int, classes: int = CLASSES, positives: float = 2.0) -> Drawn:
    """Images with so many labels on average, one of which is observed. The common ones are four times as common as the rare.

    A predictor of strength s scores sigmoid(x), where x is normal around s * s / 2 with deviation s if the label is there, and
    around -s * s / 2 if not. Then x is the logarithm of how much more likely it makes the label: its right slope is 1, and
    errors of two predictors are independent. One of strength 0 knows nothing.
    """
    rng = np.random.default_rng(seed)
    shares = np.linspace(1, 4, classes)
    there = rng.random((images, classes)) < np.minimum(shares * positives / shares.sum(), 0.95)
    if classes > 1:
        there[np.arange(images), rng.integers(classes, size=images)] |= ~there.any(1)  # an image has a label
    truth = np.where(there, 1, -1).astype(np.int8)
    scores = {}
    for name, s in strengths.items():
        x = np.where(there, s * s / 2, -s * s / 2) + (s or 1.0) * rng.normal(size=there.shape)
        scores[name] = (1 / (1 + np.exp(-x))).astype(np.float32)
    return Drawn(truth, observed_like(np.eye(1, dtype=np.int8), truth, rng), scores)


def precision_of(given: np.ndarray, images: Drawn) -> float:
    given = given & images.unknown
    return (given & images.hidden).sum() / given.sum()


@pytest.fixture(scope="module")
def seen() -> Drawn:
    """Images to fit on."""
    return drawn(1500, TWO, seed=0)


@pytest.fixture(scope="module")
def fresh() -> Drawn:
    """Other images, to test the fit on."""
    return drawn(3000, TWO, seed=1)


@pytest.fixture(scope="module")
def usual(seen):
    return fit_fusion(seen.scores, fit_target(seen.observed, seen.truth), **USUAL)


def test_a_confidence_is_the_probability_that_the_label_is_there(usual, fresh):
    confidence, hidden = usual.confidence(fresh.scores)[fresh.unknown], fresh.hidden[fresh.unknown]
    edges = np.linspace(0, 1, 11)
    sizes = []
    for low, high in pairwise(edges):
        inside = (confidence >= low) & (confidence < high)
        assert confidence[inside].mean() == pytest.approx(hidden[inside].mean(), abs=0.06)
        sizes.append(inside.sum())
    assert min(sizes) > 200


def test_a_predictor_alone_is_calibrated_too(usual, fresh):
    for name, table in usual.confidence_alone(fresh.scores).items():
        for low, high in ((0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1)):
            inside = fresh.unknown & (table >= low) & (table < high)
            assert table[inside].mean() == pytest.approx(fresh.hidden[inside].mean(), abs=0.06), name


def test_two_predictors_are_better_than_either(usual, fresh):
    def merit(table):
        return average_precision_score(fresh.hidden[fresh.unknown], table[fresh.unknown])

    together = merit(usual.confidence(fresh.scores))
    alone = {name: merit(table) for name, table in usual.confidence_alone(fresh.scores).items()}
    assert together > max(alone.values()) + 0.08
    assert usual.together.slopes == pytest.approx((1, 1), abs=0.15)


def test_a_predictor_that_knows_nothing_gets_no_slope():
    images = drawn(1500, {"guess": 0.0, "model": 2.0}, seed=2)
    fusion = fit_fusion(images.scores, fit_target(images.observed, images.truth), **USUAL)
    guess, model = fusion.together.slopes
    assert guess < 0.1
    assert model == pytest.approx(1, abs=0.15)


def test_slopes_are_not_negative(seen):
    scores = {"teacher": seen.scores["teacher"], "inverse": 1 - seen.scores["model"]}
    fusion = fit_fusion(scores, fit_target(seen.observed, seen.truth), **USUAL)
    teacher, inverse = fusion.together.slopes
    assert teacher == pytest.approx(1, abs=0.15)
    assert [inverse, *fusion.alone["inverse"].slopes] == [0, 0]


def test_predictors_are_identified_by_name_and_not_by_order(usual, fresh):
    turned = dict(reversed(fresh.scores.items()))
    assert np.array_equal(usual.confidence(turned), usual.confidence(fresh.scores))


def test_proposals_are_those_of_the_best_f1(usual, fresh):
    def f1(least):
        given = fresh.unknown & (confidence >= least)
        return 2 * (given & fresh.hidden).sum() / (given.sum() + fresh.hidden.sum())

    confidence = usual.confidence(fresh.scores)
    best = max(f1(least) for least in np.linspace(0.02, 0.98, 49))
    assert f1(usual.propose) > best - 0.01
    given = fresh.unknown & (confidence >= usual.propose)
    assert usual.precision == pytest.approx(precision_of(given, fresh), abs=0.03)
    assert usual.recall == pytest.approx((given & fresh.hidden).sum() / fresh.hidden.sum(), abs=0.03)


@pytest.mark.parametrize("wanted", [0.6, 0.8, 0.95])
def test_a_precision_that_is_asked_for_is_met_on_other_images(seen, fresh, wanted):
    fusion = fit_fusion(seen.scores, fit_target(seen.observed, seen.truth), min_precision=wanted, min_negative_precision=0.99)
    given = fresh.unknown & (fusion.confidence(fresh.scores) >= fusion.propose)
    assert precision_of(given, fresh) == pytest.approx(wanted, abs=0.03)
    assert fusion.precision == pytest.approx(wanted, abs=0.005)  # no higher than need be: as many as it allows


def test_a_precision_out_of_reach_proposes_nothing(seen, fresh):
    constant = {"teacher": np.full(seen.truth.shape, 0.5, np.float32)}
    fusion = fit_fusion(constant, fit_target(seen.observed, seen.truth), min_precision=0.9, min_negative_precision=0.99)
    assert fusion.propose == np.inf
    assert fusion.to_find > 0
    assert not (fusion.confidence({"teacher": np.ones((1, CLASSES), np.float32)}) >= fusion.propose).any()


def test_that_the_observed_labels_come_first_reaches_no_precision():
    """A model that was trained on them: nothing but them is above the rest, and of the rest it knows nothing."""
    images = drawn(300, {}, seed=3)
    scores = {"model": np.where(images.observed == 1, 0.99, 0.3).astype(np.float32)}
    target = fit_target(images.observed, images.truth)
    assert fit_fusion(scores, target, min_precision=0.9, min_negative_precision=0.99).propose == np.inf


@pytest.mark.parametrize("wanted", [0.9, 0.99])
def test_as_many_absences_as_their_precision_allows(seen, fresh, wanted):
    fusion = fit_fusion(seen.scores, fit_target(seen.observed, seen.truth), min_precision=None, min_negative_precision=wanted)
    confidence = fusion.confidence(fresh.scores)
    denied = fresh.unknown & (confidence <= fusion.deny)
    right = 1 - (denied & fresh.hidden).sum() / denied.sum()
    assert fusion.deny < fusion.propose
    assert right > wanted - 0.01
    if confidence[denied].max() < 0.9 * fusion.propose:  # else there is nothing left to deny
        assert right < wanted + 0.01


def test_no_absence_is_sure_enough():
    truth = np.ones((20, 3), np.int8)
    scores = {"model": np.random.default_rng(0).random((20, 3), np.float32)}
    fusion = fit_fusion(scores, fit_target(np.zeros_like(truth), truth), **USUAL)
    assert fusion.deny == -np.inf


def test_an_image_is_scored_by_a_fit_without_it(seen):
    target = fit_target(seen.observed, seen.truth)
    before = _held_out(seen.scores, ("teacher", "model"), target)
    for row in (0, 7, 1499):
        other = seen.truth.copy()
        other[row] *= -1
        after = _held_out(seen.scores, ("teacher", "model"), fit_target(seen.observed, other))
        assert np.array_equal(after[row], before[row])
        assert not np.array_equal(np.delete(after, row, 0), np.delete(before, row, 0))  # the others change


@pytest.mark.parametrize(
    ("strengths", "expected", "margin"),
    [
        ({"teacher": 2.5, "model": 3.0}, None, 0.1),
        ({"teacher": 1.5, "model": 2.0}, None, 0.25),
        ({"teacher": 1.5, "model": 2.0}, "true", 0.05),
        ({"teacher": 1.0}, "true", 0.05),
    ],
)
def test_figures_estimated_from_one_observed_label_per_image(strengths, expected, margin):
    """How many labels there are is a guess unless the user knows it: the worse the predictors, the more it is too high."""
    images = drawn(1000, strengths, seed=6)
    positives = None if expected is None else (images.truth == 1).sum(1).mean()
    target = estimated_fit_target(images.scores, images.observed, positives)
    assert target.positive_weight.sum() == pytest.approx(images.hidden.sum(), rel=margin if expected is None else 1e-6)
    fusion = fit_fusion(images.scores, target, **USUAL)
    given = images.unknown & (fusion.confidence(images.scores) >= fusion.propose)
    assert fusion.basis == "estimated"
    assert fusion.precision == pytest.approx(precision_of(given, images), abs=margin)
    assert fusion.recall == pytest.approx((given & images.hidden).sum() / images.hidden.sum(), abs=margin)


def test_an_estimated_precision_can_be_asked_for():
    images = drawn(1000, {"teacher": 2.0, "model": 2.5}, seed=7)
    target = estimated_fit_target(images.scores, images.observed, None)
    fusion = fit_fusion(images.scores, target, min_precision=0.9, min_negative_precision=0.99)
    confidence = fusion.confidence(images.scores)
    assert precision_of(confidence >= fusion.propose, images) == pytest.approx(0.9, abs=0.1)
    denied = images.unknown & (confidence <= fusion.deny)
    assert denied.sum() > images.unknown.sum() / 3
    assert (denied & images.hidden).sum() / denied.sum() < 0.02


def test_images_of_which_nothing_is_known_change_no_estimate():
    """That none of their labels is observed does not say that they have none."""
    images = drawn(300, TWO, seed=8)
    silent = drawn(300, TWO, seed=9)
    scores = {name: np.concatenate([images.scores[name], silent.scores[name]]) for name in TWO}
    observed = np.concatenate([images.observed, 0 * silent.observed])
    one = fit_fusion(images.scores, estimated_fit_target(images.scores, images.observed, None), **USUAL)
    two = fit_fusion(scores, estimated_fit_target(scores, observed, None), **USUAL)
    assert two.to_find == pytest.approx(one.to_find, rel=0.01)
    assert (two.precision, two.recall) == pytest.approx((one.precision, one.recall), abs=0.01)


def test_confirmed_absences_are_nothing_to_find():
    images = drawn(1000, TWO, seed=10)
    rng = np.random.default_rng(0)
    observed = np.where((images.truth == -1) & (rng.random(images.truth.shape) < 0.7), np.int8(-1), images.observed)
    target = estimated_fit_target(images.scores, observed, (images.truth == 1).sum(1).mean())
    fusion = fit_fusion(images.scores, target, **USUAL)
    given = (observed == 0) & (fusion.confidence(images.scores) >= fusion.propose)
    assert not target.counted[observed == -1].any()
    assert target.positive_weight.sum() == pytest.approx(images.hidden.sum(), rel=1e-6)
    assert fusion.precision == pytest.approx((given & images.hidden).sum() / given.sum(), abs=0.05)


@pytest.mark.parametrize("basis", ["complete", "estimated"])
@pytest.mark.parametrize("classes", [CLASSES, 100])
def test_true_labels_are_seldom_doubted_however_rare_labels_are(classes, basis):
    """Of a hundred classes nearly all are absent, so that calling any label absent is nearly always right."""
    images = drawn(400, {"teacher": 2.5, "model": 2.5}, seed=11, classes=classes)
    target = fit_target(images.observed, images.truth)
    if basis == "estimated":
        target = estimated_fit_target(images.scores, images.observed, None)
    fusion = fit_fusion(images.scores, target, **USUAL)
    alone = fusion.confidence_alone(images.scores)
    doubted = np.all([table <= fusion.doubt[name] for name, table in alone.items()], axis=0)
    assert doubted[images.observed == 1].mean() < 0.02
    assert doubted[images.truth == -1].mean() > 0.5  # wrong labels would be


@pytest.mark.parametrize(("images", "classes"), [(1, CLASSES), (2, CLASSES), (4, 1), (6, 1), (4, CLASSES)])
@pytest.mark.parametrize("basis", ["complete", "estimated"])
def test_a_handful_of_images_is_enough_to_fit(images, classes, basis):
    few = drawn(images, {"model": 3.0}, seed=12, classes=classes, positives=min(3.0, classes / 2))
    many = drawn(200, {"model": 3.0}, seed=13, classes=classes, positives=min(3.0, classes / 2))
    target = fit_target(few.observed, few.truth)
    if basis == "estimated":
        target = estimated_fit_target(few.scores, few.observed, None)
    fusion = fit_fusion(few.scores, target, **USUAL)
    confidence = fusion.confidence(many.scores)
    assert np.isfinite(confidence).all()
    assert 0 <= fusion.precision <= 1
    assert 0 <= fusion.recall <= 1 + 1e-9
    if fusion.to_find == 0:
        assert fusion.propose == np.inf
    given = many.unknown & (confidence >= fusion.propose)
    assert given.sum() < 0.7 * many.unknown.sum()


def test_nothing_to_find():
    truth = np.where(np.eye(4) == 1, 1, -1).astype(np.int8)
    shown = (truth == 1).astype(np.int8)
    scores = {"teacher": np.full((4, 4), 0.4, np.float32), "model": np.eye(4, dtype=np.float32)}
    for target in (fit_target(shown, truth), estimated_fit_target(scores, shown, 0.5)):
        fusion = fit_fusion(scores, target, **USUAL)
        assert (fusion.to_find, fusion.propose, fusion.recall) == (0, np.inf, 0)
        assert set(fusion.doubt.values()) == {-np.inf}  # there is no label to compare an observed one with
