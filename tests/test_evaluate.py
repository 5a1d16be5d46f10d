import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from aevlp.evaluate import evaluate


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
    measured = evaluate(found, labels, list("abcdef"))
    for c, name in enumerate("abcdef"):
        sklearn = 100 * average_precision_score(labels[:, c] == 1, found[:, c])
        value = measured.per_class_AP[name]
        assert value == pytest.approx(sklearn, abs=1e-12)
        assert value == pytest.approx(100 * naive_average_precision((labels[:, c] == 1).tolist(), found[:, c].tolist()), abs=1e-9)
    assert measured.mAP == pytest.approx(np.mean(list(measured.per_class_AP.values())), abs=1e-12)
    assert measured.mAP_present == pytest.approx(measured.mAP, abs=1e-12)


def test_a_class_without_positives_counts_zero_or_not_at_all():
    labels = np.array([[1, -1], [-1, -1]], np.int8)
    measured = evaluate(np.array([[0.9, 0.5], [0.1, 0.5]]), labels, ["here", "absent"])
    assert measured.mAP == 50
    assert measured.mAP_present == 100
    assert measured.per_class_AP == {"here": 100, "absent": None}


def test_unknown_labels_count_as_absent():
    labels = np.array([[1, 0], [0, 1]], np.int8)
    measured = evaluate(np.array([[0.1, 0.1], [0.9, 0.9]]), labels, ["a", "b"])
    assert measured.per_class_AP == {"a": 50, "b": 100}
