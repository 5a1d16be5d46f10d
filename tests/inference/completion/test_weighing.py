"""Weighing witnesses whose errors are known: what they say is drawn from the truth."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from aevlp.data.prevalence import observed_like
from aevlp.inference.completion.weighing import _held_out, estimated_question, question, weigh

CLASSES = 8
USUAL: dict[str, Any] = {"min_precision": None, "min_negative_precision": 0.99}
TWO = {"teacher": 1.5, "model": 2.0}


@dataclass(frozen=True)
class Drawn:
    """Images [N, C]: their labels, those that are observed, and what witnesses say of them."""

    truth: np.ndarray
    observed: np.ndarray
    said: dict[str, np.ndarray]

    @property
    def hidden(self) -> np.ndarray:
        return (self.truth == 1) & (self.observed == 0)

    @property
    def unknown(self) -> np.ndarray:
        return self.observed == 0


def drawn(images: int, strengths: dict[str, float], *, seed: int, classes: int = CLASSES, positives: float = 2.0) -> Drawn:
    """Images with so many labels on average, one of which is observed. The common ones are four times as common as the rare.

    A witness of strength s says sigmoid(x), where x is normal around s * s / 2 with deviation s if the label is there, and
    around -s * s / 2 if not. Then x is the logarithm of how much more likely it makes the label: its right weight is 1, and
    errors of two witnesses are independent. One of strength 0 says anything.
    """
    rng = np.random.default_rng(seed)
    shares = np.linspace(1, 4, classes)
    there = rng.random((images, classes)) < np.minimum(shares * positives / shares.sum(), 0.95)
    if classes > 1:
        there[np.arange(images), rng.integers(classes, size=images)] |= ~there.any(1)  # an image has a label
    truth = np.where(there, 1, -1).astype(np.int8)
    said = {}
    for name, s in strengths.items():
        x = np.where(there, s * s / 2, -s * s / 2) + (s or 1.0) * rng.normal(size=there.shape)
        said[name] = (1 / (1 + np.exp(-x))).astype(np.float32)
    return Drawn(truth, observed_like(np.eye(1, dtype=np.int8), truth, rng), said)


def precision_of(given: np.ndarray, images: Drawn) -> float:
    given = given & images.unknown
    return (given & images.hidden).sum() / given.sum()


@pytest.fixture(scope="module")
def seen() -> Drawn:
    """Images to weigh by."""
    return drawn(1500, TWO, seed=0)


@pytest.fixture(scope="module")
def fresh() -> Drawn:
    """Others, to see what the weights are worth."""
    return drawn(3000, TWO, seed=1)


@pytest.fixture(scope="module")
def usual(seen):
    return weigh(seen.said, question(seen.observed, seen.truth), **USUAL)


def test_a_confidence_is_the_probability_that_the_label_is_there(usual, fresh):
    confidence, hidden = usual.confidence(fresh.said)[fresh.unknown], fresh.hidden[fresh.unknown]
    edges = np.linspace(0, 1, 11)
    sizes = []
    for low, high in pairwise(edges):
        inside = (confidence >= low) & (confidence < high)
        assert confidence[inside].mean() == pytest.approx(hidden[inside].mean(), abs=0.06)
        sizes.append(inside.sum())
    assert min(sizes) > 200


def test_a_witness_alone_is_calibrated_too(usual, fresh):
    for name, table in usual.opinions(fresh.said).items():
        for low, high in ((0, 0.1), (0.1, 0.3), (0.3, 0.6), (0.6, 1)):
            inside = fresh.unknown & (table >= low) & (table < high)
            assert table[inside].mean() == pytest.approx(fresh.hidden[inside].mean(), abs=0.06), name


def test_two_witnesses_know_more_than_either(usual, fresh):
    def merit(table):
        return average_precision_score(fresh.hidden[fresh.unknown], table[fresh.unknown])

    together = merit(usual.confidence(fresh.said))
    alone = {name: merit(table) for name, table in usual.opinions(fresh.said).items()}
    assert together > max(alone.values()) + 0.08
    assert usual.together.slopes == pytest.approx((1, 1), abs=0.15)


def test_a_witness_that_knows_nothing_is_not_listened_to():
    images = drawn(1500, {"guess": 0.0, "model": 2.0}, seed=2)
    weighing = weigh(images.said, question(images.observed, images.truth), **USUAL)
    guess, model = weighing.together.slopes
    assert guess < 0.1
    assert model == pytest.approx(1, abs=0.15)


def test_a_witness_that_says_the_opposite_is_not_turned_round(seen):
    said = {"teacher": seen.said["teacher"], "liar": 1 - seen.said["model"]}
    weighing = weigh(said, question(seen.observed, seen.truth), **USUAL)
    teacher, liar = weighing.together.slopes
    assert teacher == pytest.approx(1, abs=0.15)
    assert [liar, *weighing.alone["liar"].slopes] == [0, 0]


def test_witnesses_are_known_by_their_names_and_not_by_their_order(usual, fresh):
    turned = dict(reversed(fresh.said.items()))
    assert np.array_equal(usual.confidence(turned), usual.confidence(fresh.said))


def test_proposals_are_those_of_the_best_f1(usual, fresh):
    def f1(least):
        given = fresh.unknown & (confidence >= least)
        return 2 * (given & fresh.hidden).sum() / (given.sum() + fresh.hidden.sum())

    confidence = usual.confidence(fresh.said)
    best = max(f1(least) for least in np.linspace(0.02, 0.98, 49))
    assert f1(usual.propose) > best - 0.01
    given = fresh.unknown & (confidence >= usual.propose)
    assert usual.precision == pytest.approx(precision_of(given, fresh), abs=0.03)
    assert usual.recall == pytest.approx((given & fresh.hidden).sum() / fresh.hidden.sum(), abs=0.03)


@pytest.mark.parametrize("wanted", [0.6, 0.8, 0.95])
def test_a_precision_that_is_asked_for_is_met_on_other_images(seen, fresh, wanted):
    weighing = weigh(seen.said, question(seen.observed, seen.truth), min_precision=wanted, min_negative_precision=0.99)
    given = fresh.unknown & (weighing.confidence(fresh.said) >= weighing.propose)
    assert precision_of(given, fresh) == pytest.approx(wanted, abs=0.03)
    assert weighing.precision == pytest.approx(wanted, abs=0.005)  # no higher than need be: as many as it allows


def test_a_precision_out_of_reach_proposes_nothing(seen, fresh):
    nobody = {"teacher": np.full(seen.truth.shape, 0.5, np.float32)}
    weighing = weigh(nobody, question(seen.observed, seen.truth), min_precision=0.9, min_negative_precision=0.99)
    assert weighing.propose == np.inf
    assert weighing.to_find > 0
    assert not (weighing.confidence({"teacher": np.ones((1, CLASSES), np.float32)}) >= weighing.propose).any()


def test_that_the_observed_labels_come_first_reaches_no_precision():
    """A witness that was told them: nothing but them is above the rest, and of the rest it knows nothing."""
    images = drawn(300, {}, seed=3)
    said = {"model": np.where(images.observed == 1, 0.99, 0.3).astype(np.float32)}
    asked = question(images.observed, images.truth)
    assert weigh(said, asked, min_precision=0.9, min_negative_precision=0.99).propose == np.inf


@pytest.mark.parametrize("wanted", [0.9, 0.99])
def test_as_many_absences_as_their_precision_allows(seen, fresh, wanted):
    weighing = weigh(seen.said, question(seen.observed, seen.truth), min_precision=None, min_negative_precision=wanted)
    confidence = weighing.confidence(fresh.said)
    denied = fresh.unknown & (confidence <= weighing.deny)
    right = 1 - (denied & fresh.hidden).sum() / denied.sum()
    assert weighing.deny < weighing.propose
    assert right > wanted - 0.01
    if confidence[denied].max() < 0.9 * weighing.propose:  # else there is nothing left to deny
        assert right < wanted + 0.01


def test_no_absence_is_sure_enough():
    truth = np.ones((20, 3), np.int8)
    said = {"model": np.random.default_rng(0).random((20, 3), np.float32)}
    weighing = weigh(said, question(np.zeros_like(truth), truth), **USUAL)
    assert weighing.deny == -np.inf


def test_an_image_is_judged_by_weights_that_were_fitted_without_it(seen):
    asked = question(seen.observed, seen.truth)
    before = _held_out(seen.said, ("teacher", "model"), asked)
    for row in (0, 7, 1499):
        other = seen.truth.copy()
        other[row] *= -1
        after = _held_out(seen.said, ("teacher", "model"), question(seen.observed, other))
        assert np.array_equal(after[row], before[row])
        assert not np.array_equal(np.delete(after, row, 0), np.delete(before, row, 0))  # the others took note


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
    """How many labels there are is a guess unless the user knows it: the worse the witnesses, the more it is too high."""
    images = drawn(1000, strengths, seed=6)
    positives = None if expected is None else (images.truth == 1).sum(1).mean()
    asked = estimated_question(images.said, images.observed, positives)
    assert asked.mass.sum() == pytest.approx(images.hidden.sum(), rel=margin if expected is None else 1e-6)
    weighing = weigh(images.said, asked, **USUAL)
    given = images.unknown & (weighing.confidence(images.said) >= weighing.propose)
    assert weighing.basis == "estimated"
    assert weighing.precision == pytest.approx(precision_of(given, images), abs=margin)
    assert weighing.recall == pytest.approx((given & images.hidden).sum() / images.hidden.sum(), abs=margin)


def test_an_estimated_precision_can_be_asked_for():
    images = drawn(1000, {"teacher": 2.0, "model": 2.5}, seed=7)
    asked = estimated_question(images.said, images.observed, None)
    weighing = weigh(images.said, asked, min_precision=0.9, min_negative_precision=0.99)
    confidence = weighing.confidence(images.said)
    assert precision_of(confidence >= weighing.propose, images) == pytest.approx(0.9, abs=0.1)
    denied = images.unknown & (confidence <= weighing.deny)
    assert denied.sum() > images.unknown.sum() / 3
    assert (denied & images.hidden).sum() / denied.sum() < 0.02


def test_images_of_which_nothing_is_known_change_no_estimate():
    """That none of their labels is observed does not say that they have none."""
    images = drawn(300, TWO, seed=8)
    silent = drawn(300, TWO, seed=9)
    said = {name: np.concatenate([images.said[name], silent.said[name]]) for name in TWO}
    observed = np.concatenate([images.observed, 0 * silent.observed])
    one = weigh(images.said, estimated_question(images.said, images.observed, None), **USUAL)
    two = weigh(said, estimated_question(said, observed, None), **USUAL)
    assert two.to_find == pytest.approx(one.to_find, rel=0.01)
    assert (two.precision, two.recall) == pytest.approx((one.precision, one.recall), abs=0.01)


def test_confirmed_absences_are_nothing_to_find():
    images = drawn(1000, TWO, seed=10)
    rng = np.random.default_rng(0)
    observed = np.where((images.truth == -1) & (rng.random(images.truth.shape) < 0.7), np.int8(-1), images.observed)
    asked = estimated_question(images.said, observed, (images.truth == 1).sum(1).mean())
    weighing = weigh(images.said, asked, **USUAL)
    given = (observed == 0) & (weighing.confidence(images.said) >= weighing.propose)
    assert not asked.counted[observed == -1].any()
    assert asked.mass.sum() == pytest.approx(images.hidden.sum(), rel=1e-6)
    assert weighing.precision == pytest.approx((given & images.hidden).sum() / given.sum(), abs=0.05)


@pytest.mark.parametrize("basis", ["complete", "estimated"])
@pytest.mark.parametrize("classes", [CLASSES, 100])
def test_true_labels_are_seldom_doubted_however_rare_labels_are(classes, basis):
    """Of a hundred classes nearly all are absent, so that calling any label absent is nearly always right."""
    images = drawn(400, {"teacher": 2.5, "model": 2.5}, seed=11, classes=classes)
    asked = question(images.observed, images.truth)
    if basis == "estimated":
        asked = estimated_question(images.said, images.observed, None)
    weighing = weigh(images.said, asked, **USUAL)
    opinions = weighing.opinions(images.said)
    speak_against = np.all([table <= weighing.doubt[name] for name, table in opinions.items()], axis=0)
    assert speak_against[images.observed == 1].mean() < 0.02
    assert speak_against[images.truth == -1].mean() > 0.5  # wrong labels would be


@pytest.mark.parametrize(("images", "classes"), [(1, CLASSES), (2, CLASSES), (4, 1), (6, 1), (4, CLASSES)])
@pytest.mark.parametrize("basis", ["complete", "estimated"])
def test_a_handful_of_images_is_weighed_by_too(images, classes, basis):
    few = drawn(images, {"model": 3.0}, seed=12, classes=classes, positives=min(3.0, classes / 2))
    many = drawn(200, {"model": 3.0}, seed=13, classes=classes, positives=min(3.0, classes / 2))
    asked = question(few.observed, few.truth)
    if basis == "estimated":
        asked = estimated_question(few.said, few.observed, None)
    weighing = weigh(few.said, asked, **USUAL)
    confidence = weighing.confidence(many.said)
    assert np.isfinite(confidence).all()
    assert 0 <= weighing.precision <= 1
    assert 0 <= weighing.recall <= 1 + 1e-9
    if weighing.to_find == 0:
        assert weighing.propose == np.inf
    given = many.unknown & (confidence >= weighing.propose)
    assert given.sum() < 0.7 * many.unknown.sum()


def test_nothing_to_find():
    truth = np.where(np.eye(4) == 1, 1, -1).astype(np.int8)
    shown = (truth == 1).astype(np.int8)
    said = {"teacher": np.full((4, 4), 0.4, np.float32), "model": np.eye(4, dtype=np.float32)}
    for asked in (question(shown, truth), estimated_question(said, shown, 0.5)):
        weighing = weigh(said, asked, **USUAL)
        assert (weighing.to_find, weighing.propose, weighing.recall) == (0, np.inf, 0)
        assert set(weighing.doubt.values()) == {-np.inf}  # there is no label to compare an observed one with
