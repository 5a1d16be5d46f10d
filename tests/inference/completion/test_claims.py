"""Claims about new labels: the stated intervals hold on images that were not measured, and nothing useless looks good."""

import numpy as np
import pytest

from aevlp.inference.completion import claims
from aevlp.inference.completion.claims import ClaimMeasurement, absence_cut, best_f1_cut, expected_claim
from aevlp.inference.completion.fusion import TOGETHER, FitTarget, complete_fit_target, estimated_fit_target, fit_fusion
from aevlp.training.intervals import Interval
from tests.inference.completion.test_fusion import TWO, Drawn, drawn, precision_of


def measured(val: Drawn, train: Drawn) -> tuple[ClaimMeasurement, np.ndarray]:
    """A measurement on fully labelled images `val`, and the confidences of the images `train`."""
    target = complete_fit_target(train.observed, val.truth, np.random.default_rng(0))
    fusion, held_out = fit_fusion(val.scores, target)
    confidence = fusion.confidence(train.scores)
    return ClaimMeasurement(held_out[TOGETHER], target, confidence[train.unknown]), confidence


def test_the_cut_has_the_best_f1_of_other_images():
    val, train = drawn(1000, TWO, seed=0), drawn(2000, TWO, seed=1)
    _, confidence = measured(val, train)

    def f1(least):
        given = train.unknown & (confidence >= least)
        return 2 * (given & train.hidden).sum() / (given.sum() + train.hidden.sum())

    best = max(f1(least) for least in np.linspace(0.02, 0.98, 49))
    assert f1(best_f1_cut(confidence[train.unknown])) > best - 0.01


def test_labels_that_are_found_already_make_new_ones_prove_themselves():
    confidence = np.array([0.9, 0.6, 0.3, 0.1, 0.1])

    def f1(count: int, found: int) -> float:
        return 2 * (found + confidence[:count].sum()) / (2 * found + count + confidence.sum())

    for found in (0, 1, 3, 10, 1000):
        best = max(range(6), key=lambda count: f1(count, found))
        assert (confidence >= best_f1_cut(confidence, found)).sum() == best
    assert best_f1_cut(np.array([0.05, 0.02]), 100) == np.inf


@pytest.mark.parametrize("images", [50, 150])
def test_intervals_hold_the_true_precision_and_recall(images):
    """Nine of ten do (with sixty sets, eight of ten at least), and they are not so wide that anything fits."""
    held: dict[str, list[bool]] = {"precision": [], "recall": []}
    widths = []
    for seed in range(60):
        val, train = drawn(images, TWO, seed=2 * seed), drawn(300, TWO, seed=2 * seed + 1)
        measurement, confidence = measured(val, train)
        cut = best_f1_cut(confidence[train.unknown])
        claim, given = measurement.claim(cut), train.unknown & (confidence >= cut)
        truth = {"precision": precision_of(given, train), "recall": (given & train.hidden).sum() / train.hidden.sum()}
        for name, interval in (("precision", claim.precision), ("recall", claim.recall)):
            held[name].append(interval.low <= truth[name] <= interval.high)
        widths.append(claim.precision.high - claim.precision.low)
    assert np.mean(held["precision"]) >= 0.8
    assert np.mean(held["recall"]) >= 0.8
    assert np.mean(widths) < 0.4


def test_a_precision_that_is_asked_for_is_kept_or_nothing_is_proposed():
    kept = []
    for seed in range(40):
        val, train = drawn(200, {"model": 3.0}, seed=1000 + seed), drawn(300, {"model": 3.0}, seed=2000 + seed)
        measurement, confidence = measured(val, train)
        cut = measurement.precise_cut(0.8)
        if cut < np.inf:
            kept.append(precision_of(confidence >= cut, train) >= 0.8)
            assert measurement.claim(cut).precision.low >= 0.8
    assert len(kept) > 30  # it is within reach here
    assert np.mean(kept) >= 0.85


def test_a_precision_out_of_reach_has_no_cut():
    val, train = drawn(200, {"model": 0.0}, seed=3), drawn(300, {"model": 0.0}, seed=4)
    assert measured(val, train)[0].precise_cut(0.9) == np.inf
    val, train = drawn(12, {"model": 5.0}, seed=3), drawn(300, {"model": 5.0}, seed=4)
    assert measured(val, train)[0].precise_cut(0.9) == np.inf  # so few images prove nothing, however good the model


@pytest.mark.parametrize("is_complete", [True, False])
def test_absences_lose_few_of_the_labels_to_find(is_complete):
    """Judged by fully labelled images, or by the one label that each image shows; a stated interval holds the true share."""
    lost, held, found = [], [], []
    for seed in range(40):
        val, train = drawn(150, TWO, seed=3000 + seed), drawn(300, TWO, seed=4000 + seed)
        on = val if is_complete else train
        target = (
            complete_fit_target(train.observed, val.truth, np.random.default_rng(0))
            if is_complete
            else estimated_fit_target(train.scores, train.observed, None)
        )
        fusion, held_out = fit_fusion(on.scores, target)
        confidence = fusion.confidence(train.scores)
        deny, said = absence_cut(held_out[TOGETHER], target, 0.05)
        assert said <= 0.05
        denied = train.unknown & (confidence <= deny)
        lost.append((denied & train.hidden).sum() / train.hidden.sum())
        found.append(denied.sum() / (train.truth[train.unknown] == -1).sum())
        if is_complete:
            claim = ClaimMeasurement(held_out[TOGETHER], target, confidence[train.unknown]).absences(deny)
            assert isinstance(claim.lost, Interval)
            assert claim.precision is not None
            held.append(claim.lost.low <= lost[-1] <= claim.lost.high)
            held.append(claim.precision.low <= 1 - precision_of(denied, train) <= claim.precision.high)
    assert np.mean(lost) < 0.05
    assert np.mean(np.array(lost) <= 0.07) >= 0.85
    assert np.mean(found) > 0.3
    if is_complete:
        assert np.mean(held) >= 0.8


def test_absences_are_counted_with_all_that_equal_them():
    """Half of the cells have the same least confidence, and a tenth of the labels among them."""
    confidence = np.repeat([0.01, 0.5, 0.9], [500, 250, 250])[None]
    positive = np.zeros(confidence.shape)
    positive[0, 490:500] = positive[0, 900:990] = 1
    target = FitTarget(positive, np.ones(confidence.shape), "complete")
    assert absence_cut(confidence, target, 0.05) == (-np.inf, 0.0)
    assert absence_cut(confidence, target, 0.15) == (0.5, 0.1)


@pytest.mark.parametrize(("labels", "is_enough"), [(10, False), (30, True)])
def test_few_labels_do_not_prove_that_none_is_lost(labels, is_enough):
    confidence = np.linspace(0.01, 0.99, 100)[None]
    positive = np.zeros(confidence.shape)
    positive[0, -labels:] = 1
    cut, lost = absence_cut(confidence, FitTarget(positive, np.ones(confidence.shape), "complete"), 0.05)
    assert (cut > 0.5) == is_enough
    assert lost == 0
    assert absence_cut(confidence, FitTarget(0 * positive, positive, "complete"), 0.05) == (-np.inf, 0.0)


def test_classes_are_weighted_as_they_are_observed():
    """Where images were collected class by class, the common class is often a hidden label: the rare one is what is shown."""
    rng = np.random.default_rng(0)
    truth = np.where(rng.random((4000, 2)) < [0.8, 0.2], 1, -1).astype(np.int8)
    truth = truth[(truth == 1).any(1)]
    hidden = []
    for tags in ([[1, 0]] * 9 + [[0, 1]], [[1, 0], [0, 1]]):
        target = complete_fit_target(np.array(tags, np.int8), truth, rng)
        hidden.append(target.positive_weight[:, 0].sum() / target.positive_weight.sum())
    plain, collected = hidden
    assert collected > plain + 0.25


def test_expectations_have_the_range_of_other_numbers_of_labels():
    images = drawn(800, TWO, seed=5)
    target = estimated_fit_target(images.scores, images.observed, None)
    confidence = fit_fusion(images.scores, target)[0].confidence(images.scores)[images.unknown]
    claim = expected_claim(confidence[confidence >= best_f1_cut(confidence)], target, 1.0)
    assert claim.low < claim.precision < claim.high
    assert claim.fewest < (images.truth == 1).sum(1).mean() < claim.most
    mean, low, high = (f"{100 * share:.0f}" for share in (claim.precision, claim.low, claim.high))
    assert str(claim).startswith(f"expected precision {mean} %, unverified ({low} to {high} % if")


def test_a_predictor_that_knows_nothing_proposes_nothing():
    images = drawn(800, {"teacher": 0.0}, seed=6)
    target = estimated_fit_target(images.scores, images.observed, None)
    confidence = fit_fusion(images.scores, target)[0].confidence(images.scores)[images.unknown]
    assert target.to_find == 0 or (confidence >= best_f1_cut(confidence)).mean() < 0.01


def test_the_cut_is_the_same_however_many_labels_are_looked_at_at_a_time(monkeypatch):
    confidence = np.random.default_rng(0).beta(0.3, 2, 500).round(2)  # with equal ones, which stay on one side
    whole = best_f1_cut(confidence, 20)
    monkeypatch.setattr(claims, "CELLS", 7)
    assert best_f1_cut(confidence, 20) == whole
    assert [len(sums) for _, sums in claims.cumulative(confidence[:20])] == [7, 7, 6]
    assert np.concatenate([sums for _, sums in claims.cumulative(confidence)]) == pytest.approx(confidence.cumsum())
