import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from aevlp.core.json_types import from_json
from aevlp.data.regression import Logistic, fit_logistic, logit, sigmoid
from aevlp.training.calibration import Calibration, fit_calibration, reliability


def said_and_true(slope: float, offset: float, images: int = 3000, classes: int = 5, seed: int = 0):
    """(probabilities [N, C] of a classifier, labels [N, C] that are there with sigmoid(slope * logit(p) + offset))."""
    rng = np.random.default_rng(seed)
    p = sigmoid(rng.normal(-1, 1.5, (images, classes)))
    return p.astype(np.float32), rng.random(p.shape) < sigmoid(slope * logit(p) + offset)


def naive_error(p, there, bins=10):
    """The mean distance of mean probability and share of positives, bin by bin, from lists."""
    total = 0.0
    for b in range(bins):
        inside = [(v, t) for v, t in zip(p, there, strict=True) if b / bins <= v < (b + 1) / bins or (b == bins - 1 and v == 1)]
        if inside:
            total += abs(sum(v for v, _ in inside) - sum(t for _, t in inside))
    return total / len(p)


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (2.0, -1.0), (0.5, 1.5)])
def test_a_known_slope_and_offset_are_found(slope, offset):
    p, there = said_and_true(slope, offset)
    fitted = fit_calibration(p, there)
    assert fitted.slope == pytest.approx(slope, abs=0.1)
    assert fitted.offset == pytest.approx(offset, abs=0.1)


def test_what_was_far_off_is_reliable_after_calibration_and_in_the_same_order():
    p, there = said_and_true(2.5, -2.0)
    fitted = fit_calibration(p, there)
    assert fitted.before.error > 0.1
    assert fitted.after.error < 0.02
    unseen, true = said_and_true(2.5, -2.0, seed=1)
    assert reliability(fitted(unseen), true).error < 0.02
    assert (np.diff(fitted(np.sort(p.ravel()))) >= 0).all()


def test_after_is_measured_on_images_that_were_not_fitted_on():
    """Even and odd images contradict each other: what the one half teaches is wrong for the other, and the error says so."""
    p = np.tile(np.array([[0.2, 0.8]], np.float32), (200, 1))
    there = np.zeros(p.shape, bool)
    there[0::2] = [False, True]
    there[1::2] = [True, False]
    assert fit_calibration(p, there).after.error > 0.4
    assert reliability(fit_calibration(p, there)(p), there).error < 0.01


def test_labels_that_a_value_parts_give_no_certainty():
    p = np.array([[0.3, 0.6], [0.2, 0.7]] * 4, np.float32)
    fitted = fit_calibration(p, p > 0.5)
    assert fitted(np.array(0.7)) < 0.95
    assert fitted(np.array(0.2)) > 0.05
    assert fitted(np.array(0.7)) > 0.7


def test_a_classifier_that_is_mistaken_throughout_is_not_turned_round():
    p, there = said_and_true(-1.0, 0.0)
    fitted = fit_calibration(p, there)
    assert fitted.slope == 0
    assert fitted(p) == pytest.approx(there.mean(), abs=0.01)


@pytest.mark.parametrize("there", [[[False] * 3] * 4, [[True] * 3] * 4])
def test_labels_of_one_kind_give_finite_numbers_on_their_side(there):
    p = np.random.default_rng(0).random((4, 3)).astype(np.float32)
    found = fit_calibration(p, np.array(there))(p)
    assert np.isfinite(found).all()
    assert (abs(found - float(there[0][0])) < 0.2).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 1), (3, 1)])
def test_very_few_labels_give_finite_numbers(shape):
    p = np.random.default_rng(0).random(shape).astype(np.float32)
    there = np.zeros(shape, bool)
    there[0, 0] = True
    fitted = fit_calibration(p, there)
    assert np.isfinite(fitted(p)).all()
    assert 0 <= fitted.after.error <= 1


def test_certain_values_are_taken_and_given():
    p = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], np.float32)
    there = np.array([[False, True], [False, True], [True, True]])
    fitted = fit_calibration(p, there)
    assert np.isfinite([fitted.slope, fitted.offset, *fitted(p).ravel()]).all()
    assert np.array(fitted.before.bins) == pytest.approx(np.array([[0, 1 / 3, 3], [1, 1, 3]]))
    assert np.isfinite(logit(np.array([0.0, 1.0]))).all()
    assert logit(np.array([0.0, 0.5, 1.0])).tolist() == pytest.approx([math.log(1e-7), 0, -math.log(1e-7)], abs=1e-6)


def test_reliability_is_that_of_a_loop_over_bins():
    rng = np.random.default_rng(0)
    p = rng.random((60, 4)) ** 3
    p[0] = [0, 1, 0.1, 0.3]  # ends of bins
    there = rng.random(p.shape) < 0.4
    found = reliability(p, there)
    assert found.error == pytest.approx(naive_error(p.ravel().tolist(), there.ravel().tolist()))
    assert sum(cells for *_, cells in found.bins) == p.size
    assert sum(share * cells for _, share, cells in found.bins) == pytest.approx(there.sum())


def naive_loss(fitted: Logistic, features, positive, negative) -> float:
    """The logistic loss of weighted cells and the penalty on the classes' own offsets, cell by cell."""
    total = sum(own**2 for own in fitted.of_class or ())
    for n, row in enumerate(features.tolist()):
        for c, cell in enumerate(row):
            z = sum(slope * x for slope, x in zip(fitted.slopes, cell, strict=True)) + fitted.offset
            z += fitted.of_class[c] if fitted.of_class else 0.0
            total += positive[n, c] * math.log1p(math.exp(-z)) + negative[n, c] * math.log1p(math.exp(z))
    return total


@pytest.mark.parametrize("per_class", [False, True])
def test_no_step_from_the_regression_makes_the_loss_smaller(per_class):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(80, 3, 2))
    positive, negative = rng.random((80, 3)) * (features[..., 0] > 0.3), rng.random((80, 3))
    fitted = fit_logistic(features, positive, negative, per_class=per_class)
    assert (fitted.of_class is not None) == per_class
    least = naive_loss(fitted, features, positive, negative)
    for step in (0.02, -0.02):
        others = [Logistic((fitted.slopes[0] + step, fitted.slopes[1]), fitted.offset, fitted.of_class)]
        others.append(Logistic((fitted.slopes[0], fitted.slopes[1] + abs(step)), fitted.offset, fitted.of_class))
        others.append(Logistic(fitted.slopes, fitted.offset + step, fitted.of_class))
        if fitted.of_class is not None:
            others.append(Logistic(fitted.slopes, fitted.offset, (fitted.of_class[0] + step, *fitted.of_class[1:])))
        assert all(naive_loss(other, features, positive, negative) > least for other in others)


def test_a_calibration_comes_back_from_a_file():
    fitted = fit_calibration(*said_and_true(2.0, -1.0, images=50))
    again = from_json(json.loads(json.dumps(asdict(fitted))), Calibration)
    assert isinstance(again, Calibration)
    assert again == fitted
