from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score

from aevlp.data.dataset import Split
from aevlp.training.evaluate import evaluate, label_metrics, ranking_metrics


def split_of(observed, truth):
    """A split with these labels; its images are never read."""
    names = tuple(f"{row}.png" for row in range(len(observed)))
    return Split("val", Path("photos"), names, np.array(names, "S16"), observed, truth)


def naive_average_precision(truth, found):
    """Sum over thresholds, from high to low, of precision times the gain in recall; equal scores are one threshold."""
    total, last_recall = 0.0, 0.0
    for threshold in sorted(set(found), reverse=True):
        claims = [t for t, p in zip(truth, found, strict=True) if p >= threshold]
        recall = sum(claims) / sum(truth)
        total += (recall - last_recall) * sum(claims) / len(claims)
        last_recall = recall
    return total


@pytest.mark.parametrize("ties", [False, True])
def test_figures_are_scikit_learns_and_those_of_the_definition(ties):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((200, 6)) < 0.3, 1, -1).astype(np.int8)
    found = rng.random((200, 6))
    if ties:
        found = found.round(1)
    measured = ranking_metrics(found, labels, list("abcdef"))
    for c, name in enumerate("abcdef"):
        sklearn = 100 * average_precision_score(labels[:, c] == 1, found[:, c])
        value = measured.per_class_AP[name]
        assert value == pytest.approx(sklearn, abs=1e-12)
        assert value == pytest.approx(100 * naive_average_precision((labels[:, c] == 1).tolist(), found[:, c].tolist()), abs=1e-9)
    assert measured.mAP == pytest.approx(np.mean(list(measured.per_class_AP.values())), abs=1e-12)
    assert measured.mAP_present == pytest.approx(measured.mAP, abs=1e-12)


def test_a_class_without_positives_counts_zero_or_not_at_all():
    labels = np.array([[1, -1], [-1, -1]], np.int8)
    measured = ranking_metrics(np.array([[0.9, 0.5], [0.1, 0.5]]), labels, ["here", "absent"])
    assert measured.mAP == 50
    assert measured.mAP_present == 100
    assert measured.per_class_AP == {"here": 100, "absent": None}


def test_unknown_labels_count_as_absent():
    labels = np.array([[1, 0], [0, 1]], np.int8)
    measured = ranking_metrics(np.array([[0.1, 0.1], [0.9, 0.9]]), labels, ["a", "b"])
    assert measured.per_class_AP == {"a": 50, "b": 100}


def test_figures_of_labels_are_scikit_learns():
    rng = np.random.default_rng(0)
    labels = rng.choice(np.array([1, 0, -1], np.int8), size=(100, 5))
    given = rng.random(labels.shape) < 0.4
    figures = label_metrics(given, labels == 1)
    there = labels == 1
    assert figures.macro_F1 == pytest.approx(100 * f1_score(there, given, average="macro"))
    assert figures.micro_F1 == pytest.approx(100 * f1_score(there, given, average="micro"))
    assert figures.precision == pytest.approx(100 * precision_score(there, given, average="micro"))
    assert figures.recall == pytest.approx(100 * recall_score(there, given, average="micro"))
    assert figures.per_class_F1 == pytest.approx(100 * f1_score(there, given, average=None))


def test_a_class_that_is_neither_there_nor_given_has_no_f1_and_is_not_in_the_mean():
    labels = np.array([[1, -1, 1, -1], [1, -1, -1, 0]], np.int8)
    given = np.array([[True, False, False, True], [True, False, False, False]])
    figures = label_metrics(given, labels == 1)
    assert list(figures.per_class_F1) == [100, None, 0, 0]
    assert figures.macro_F1 == pytest.approx(100 / 3)
    assert (figures.precision, figures.recall) == pytest.approx((200 / 3, 200 / 3))


def test_where_nothing_is_given_nothing_is_wrong_and_nothing_found():
    nothing, labels = np.zeros((2, 2), bool), np.array([[1, -1], [-1, 1]], np.int8)
    figures = label_metrics(nothing, labels == 1)
    assert (figures.macro_F1, figures.micro_F1, figures.precision, figures.recall) == (0, 0, 100, 0)
    empty = label_metrics(nothing, np.zeros((2, 2), bool))
    assert (empty.macro_F1, empty.micro_F1, empty.precision, empty.recall) == (0, 0, 100, 0)
    assert list(empty.per_class_F1) == [None, None]


def test_a_split_is_judged_by_order_by_thresholds_and_by_one_half():
    found, labels = np.array([[0.4, 0.5], [0.3, 0.6]]), np.array([[1, -1], [-1, 1]], np.int8)
    judged = evaluate(found, split_of(labels, labels), ["a", "b"], found >= np.array([0.35, 0.55]))
    assert judged.ranking == ranking_metrics(found, labels, ["a", "b"])
    assert judged.labels.macro_F1 == 100
    assert judged.at_half.per_class_F1 == pytest.approx((0, 200 / 3))
    assert judged.basis == "measured"


def test_metrics_against_incomplete_labels_are_estimates_in_which_an_observed_label_stands_for_several():
    observed = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]], np.int8)  # of the third image nothing is known
    found = np.array([[0.9, 0.8, 0.1], [0.7, 0.9, 0.1], [0.9, 0.9, 0.9]])
    judged = evaluate(found, split_of(observed, None), list("abc"), found >= 0.75, 2.0)
    assert judged.basis == "estimated"
    assert list(judged.labels.per_class_F1[:2]) == pytest.approx([100 * 2 * 1 / (1 + 2), 100 * 2 * 2 / (2 + 2)])
    assert list(judged.at_half.per_class_F1[:2]) == pytest.approx([100, 100])
    # To give every label of every image is no good, whatever the thresholds were fitted for.
    everything = evaluate(found, split_of(observed, None), list("abc"), np.ones_like(found, bool), 2.0)
    assert everything.labels.precision == pytest.approx(100 * 4 / 6)
