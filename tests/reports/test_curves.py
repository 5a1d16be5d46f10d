import numpy as np
import pytest

from aevlp.reports import collect
from aevlp.reports.collect import BINS, POINTS, calibrated, extremes, histograms, precision_recall
from aevlp.training.calibration import Calibration, Reliability


def test_histograms_count_every_label_once():
    rng = np.random.default_rng(0)
    p, labels = rng.random((200, 4)), rng.choice(np.array([-1, 0, 1], np.int8), (200, 4))
    p[0] = [0.0, 1.0, 0.02, 0.019]
    groups = [np.arange(4), np.array([2])]
    counts = histograms(p, labels, groups)
    assert counts.shape == (2, 2, BINS)
    for group, columns in zip(counts, groups, strict=True):
        for kind, which in zip(group, (labels == 1, labels != 1), strict=True):
            expected = np.histogram(p[:, columns][which[:, columns]], bins=BINS, range=(0, 1))[0]
            assert kind.sum() == which[:, columns].sum()
            assert np.abs(kind - expected).sum() <= 2  # at the edge of two bins they may differ


@pytest.mark.parametrize(
    ("ap", "best", "worst"),
    [
        ([10.0, 30.0, 20.0], [1, 2], [0]),
        ([50.0], [0], []),
        ([np.nan, 5.0], [1], []),
        ([float(c) for c in range(20)], [19, 18, 17, 16, 15], [4, 3, 2, 1, 0]),
    ],
)
def test_no_class_is_among_the_best_and_the_worst(ap, best, worst):
    assert extremes(np.array(ap)) == (best, worst)


def test_a_curve_is_that_of_the_ranking_and_marks_the_threshold():
    p, there = np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, False, True, False])
    curve = precision_recall(p, there, 0.75, label="a", ap=83.3)
    assert {(0.5, 1.0), (0.5, 0.5), (1.0, 2 / 3)} <= set(curve.points)
    assert [recall for recall, _ in curve.points] == sorted(recall for recall, _ in curve.points)
    assert curve.chosen == (0.5, 0.5)
    assert precision_recall(p, there, 0.95, label="a", ap=83.3).chosen is None


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    rng = np.random.default_rng(0)
    curve = precision_recall(rng.random(50_000), rng.random(50_000) < 0.2, 0.5, label="a", ap=20.0)
    assert len(curve.points) <= POINTS + 1
    assert curve.points[0][0] == 0
    assert curve.points[-1][0] == 1


def test_reliability_is_measured_before_and_after():
    rng = np.random.default_rng(0)
    truth = rng.random((4000, 3))
    labels = np.where(rng.random(truth.shape) < truth, 1, -1).astype(np.int8)
    modest = truth**2 / (truth**2 + (1 - truth) ** 2)  # twice the logit
    nothing = Reliability(0, ())
    before, after = calibrated(modest, labels, Calibration(0.5, 0.0, nothing, nothing))
    assert after is not None
    assert after.error < 0.02 < 0.05 < before.error
    assert calibrated(modest, labels, None) == (before, None)


def test_reliability_of_very_many_labels_is_that_of_evenly_spread_images(monkeypatch):
    rng = np.random.default_rng(0)
    p = rng.random((1000, 10))
    labels = np.where(rng.random(p.shape) < p, 1, -1).astype(np.int8)
    monkeypatch.setattr(collect, "CELLS", 1000)
    before, _ = calibrated(p, labels, None)
    assert sum(cells for *_, cells in before.bins) == 1000
    assert before.error < 0.1
