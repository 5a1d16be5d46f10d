"""Fusion of predictors whose errors are known: their scores are drawn from the truth."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from aevlp.data.prevalence import observed_like
from aevlp.inference.completion.fusion import (
    SUREST,
    FitTarget,
    _held_out,
    complete_fit_target,
    estimated_fit_target,
    fit_fusion,
    greatest_doubted,
)

CLASSES = 8
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


def fit_target(images: Drawn, truth: np.ndarray | None = None) -> FitTarget:
    """The target of fully labelled images that show one label each."""
    rng = np.random.default_rng(0)
    return complete_fit_target(images.observed, images.truth if truth is None else truth, rng)


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


def slopes(confidence) -> tuple[float, ...]:
    (fit,) = confidence.fits
    return fit.slopes


@pytest.fixture(scope="module")
def usual(seen):
    return fit_fusion(seen.scores, fit_target(seen))[0]


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
    assert slopes(usual.together) == pytest.approx((1, 1), abs=0.15)


def test_a_predictor_that_knows_nothing_gets_no_slope():
    images = drawn(1500, {"guess": 0.0, "model": 2.0}, seed=2)
    fusion, _ = fit_fusion(images.scores, fit_target(images))
    guess, model = slopes(fusion.together)
    assert guess < 0.1
    assert model == pytest.approx(1, abs=0.15)


def test_slopes_are_not_negative(seen):
    scores = {"teacher": seen.scores["teacher"], "inverse": 1 - seen.scores["model"]}
    fusion, _ = fit_fusion(scores, fit_target(seen))
    teacher, inverse = slopes(fusion.together)
    assert teacher == pytest.approx(1, abs=0.15)
    assert [inverse, *slopes(fusion.alone["inverse"])] == [0, 0]


def test_predictors_are_identified_by_name_and_not_by_order(usual, fresh):
    turned = dict(reversed(fresh.scores.items()))
    assert np.array_equal(usual.confidence(turned), usual.confidence(fresh.scores))


def test_an_image_is_scored_by_a_fit_without_it(seen):
    target = fit_target(seen)
    before = _held_out(seen.scores, ("teacher", "model"), target)
    for row in (0, 7, 1499):
        weight = target.positive_weight.copy()
        weight[row] = target.cell_weight[row] - weight[row]
        after = _held_out(seen.scores, ("teacher", "model"), FitTarget(weight, target.cell_weight, "complete"))
        assert np.array_equal(after[row], before[row])
        assert not np.array_equal(np.delete(after, row, 0), np.delete(before, row, 0))  # the others change


@pytest.mark.parametrize(
    ("strengths", "low", "high"),
    [(TWO, 0.6, 1.3), ({"teacher": 1.0}, 0, 1.3), ({"teacher": 0.0}, 0, 0.01)],
)
def test_the_worse_the_predictors_the_fewer_labels_are_estimated(strengths, low, high):
    """How many labels there are is a guess unless the user knows it: a predictor that knows nothing must not find any."""
    images = drawn(600, strengths, seed=6)
    assert low <= estimated_fit_target(images.scores, images.observed, None).to_find / images.hidden.sum() <= high


def test_confidences_with_a_number_of_labels_by_the_user_are_cautious():
    """The labels that the predictors do not find may be anywhere: a confidence is at most the share of labels that are there."""
    images = drawn(1000, TWO, seed=6)
    target = estimated_fit_target(images.scores, images.observed, (images.truth == 1).sum(1).mean())
    assert target.to_find == pytest.approx(images.hidden.sum(), rel=1e-6)
    assert target.found < target.to_find
    confidence = fit_fusion(images.scores, target)[0].confidence(images.scores)
    for low, high in ((0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1)):
        inside = images.unknown & (confidence >= low) & (confidence < high)
        assert images.hidden[inside].mean() - 0.25 < confidence[inside].mean() < images.hidden[inside].mean() + 0.03


def test_a_number_of_labels_that_predictors_find_themselves_changes_nothing():
    images = drawn(600, TWO, seed=6)
    own = estimated_fit_target(images.scores, images.observed, None)
    per_image = ((images.observed == 1).sum() + own.to_find) / len(images.observed)
    named = estimated_fit_target(images.scores, images.observed, per_image)
    first, second = (fit_fusion(images.scores, target)[0].confidence(images.scores) for target in (own, named))
    assert np.abs(first - second).mean() < 0.01


def test_confidences_are_never_sure_where_nothing_was_measured():
    images = drawn(300, {"model": 6.0}, seed=6)
    target = estimated_fit_target(images.scores, images.observed, 6.0)
    assert fit_fusion(images.scores, target)[0].confidence(images.scores).max() == SUREST


def test_images_of_which_nothing_is_known_change_no_estimate():
    """That none of their labels is observed does not say that they have none."""
    images = drawn(300, TWO, seed=8)
    silent = drawn(300, TWO, seed=9)
    scores = {name: np.concatenate([images.scores[name], silent.scores[name]]) for name in TWO}
    observed = np.concatenate([images.observed, 0 * silent.observed])
    one = estimated_fit_target(images.scores, images.observed, None)
    two = estimated_fit_target(scores, observed, None)
    assert two.to_find == pytest.approx(one.to_find, rel=0.01)


def test_confirmed_absences_are_nothing_to_find():
    images = drawn(1000, TWO, seed=10)
    rng = np.random.default_rng(0)
    observed = np.where((images.truth == -1) & (rng.random(images.truth.shape) < 0.7), np.int8(-1), images.observed)
    target = estimated_fit_target(images.scores, observed, (images.truth == 1).sum(1).mean())
    assert not target.cell_weight[observed == -1].any()
    assert target.to_find == pytest.approx(images.hidden.sum(), rel=1e-6)


@pytest.mark.parametrize("basis", ["complete", "estimated"])
@pytest.mark.parametrize("classes", [CLASSES, 100])
def test_true_labels_are_seldom_doubted_however_rare_labels_are(classes, basis):
    """Of a hundred classes nearly all are absent, so that calling any label absent is nearly always right."""
    images = drawn(400, {"teacher": 2.5, "model": 2.5}, seed=11, classes=classes)
    target = fit_target(images)
    if basis == "estimated":
        target = estimated_fit_target(images.scores, images.observed, None)
    fusion, held_out = fit_fusion(images.scores, target)
    alone = fusion.confidence_alone(images.scores)
    doubt = {name: greatest_doubted(held_out[name], target, 0.99) for name in alone}
    doubted = np.all([table <= doubt[name] for name, table in alone.items()], axis=0)
    assert doubted[images.observed == 1].mean() < 0.02
    assert doubted[images.truth == -1].mean() > 0.5  # wrong labels would be


@pytest.mark.parametrize(("images", "classes"), [(1, CLASSES), (2, CLASSES), (4, 1), (6, 1), (4, CLASSES)])
@pytest.mark.parametrize("basis", ["complete", "estimated"])
def test_a_handful_of_images_is_enough_to_fit(images, classes, basis):
    few = drawn(images, {"model": 3.0}, seed=12, classes=classes, positives=min(3.0, classes / 2))
    many = drawn(200, {"model": 3.0}, seed=13, classes=classes, positives=min(3.0, classes / 2))
    target = fit_target(few) if basis == "complete" else estimated_fit_target(few.scores, few.observed, None)
    confidence = fit_fusion(few.scores, target)[0].confidence(many.scores)
    assert ((confidence >= 0) & (confidence <= 1)).all()


def test_nothing_to_find():
    truth = np.where(np.eye(4) == 1, 1, -1).astype(np.int8)
    shown = (truth == 1).astype(np.int8)
    scores = {"teacher": np.full((4, 4), 0.4, np.float32), "model": np.eye(4, dtype=np.float32)}
    rng = np.random.default_rng(0)
    for target in (complete_fit_target(shown, truth, rng), estimated_fit_target(scores, shown, 0.5)):
        _, held_out = fit_fusion(scores, target)
        assert target.to_find == 0
        assert {greatest_doubted(held_out[name], target, 0.99) for name in scores} == {-np.inf}  # no label to compare with
