import numpy as np
import pytest

from aevlp.damp.quality import Quality


def naive(found, observed, truth):
    cells = [(i, j) for i in range(len(found)) for j in range(len(found[0])) if observed[i][j] == 0]
    hits = sum(1 for i, j in cells if found[i][j] and truth[i][j] == 1)
    claims = sum(1 for i, j in cells if found[i][j])
    there = sum(1 for i, j in cells if truth[i][j] == 1)
    return hits / claims if claims else None, hits / there if there else None


def world(seed=0):
    rng = np.random.default_rng(seed)
    truth = np.where(rng.random((30, 8)) < 0.3, 1, -1).astype(np.int8)
    observed = np.zeros_like(truth)
    for row in range(30):
        positives = np.flatnonzero(truth[row] == 1)
        if len(positives):
            observed[row, positives[0]] = 1
    return observed, truth, [rng.integers(-1, 2, truth.shape).astype(np.int8) for _ in range(4)]


def test_figures_are_those_of_a_loop_over_cells():
    observed, truth, epochs = world()
    quality = Quality(observed, truth)
    pairs, union = [], np.zeros(truth.shape, bool)
    for pseudo in epochs:
        figures = quality.update(pseudo)
        pairs.append(naive(pseudo == 1, observed, truth))
        union |= pseudo == 1
        assert (figures["epoch_precision"], figures["epoch_recall"]) == pytest.approx(pairs[-1])
        assert figures["precision"] == pytest.approx(sum(p for p, _ in pairs) / len(pairs))
        assert figures["recall"] == pytest.approx(sum(r for _, r in pairs) / len(pairs))
        assert (figures["accumulated_precision"], figures["accumulated_recall"]) == pytest.approx(naive(union, observed, truth))


def test_confirmed_positives_count_in_neither():
    observed = np.array([[1, 0, 0]], np.int8)
    truth = np.array([[1, 1, -1]], np.int8)
    figures = Quality(observed, truth).update(np.array([[1, 0, 1]], np.int8))
    assert figures["epoch_precision"] == 0
    assert figures["epoch_recall"] == 0


def test_nothing_found_leaves_precision_open():
    observed, truth, _ = world()
    figures = Quality(observed, truth).update(np.zeros_like(truth))
    assert figures["precision"] is None
    assert figures["recall"] == 0


def test_continues_from_its_state():
    observed, truth, epochs = world()
    whole, first = Quality(observed, truth), Quality(observed, truth)
    for pseudo in epochs[:2]:
        whole.update(pseudo)
        first.update(pseudo)
    second = Quality(observed, truth)
    second.load_state_dict(first.state_dict())
    for pseudo in epochs[2:]:
        assert second.update(pseudo) == whole.update(pseudo)


def test_a_state_has_no_more_labels_than_there_are():
    """Labels are kept as bits, eight to a byte."""
    observed, truth, epochs = (np.zeros((3, 3), np.int8), -np.ones((3, 3), np.int8), [np.eye(3, dtype=np.int8)])
    first, again = Quality(observed, truth), Quality(observed, truth)
    first.update(epochs[0])
    again.load_state_dict(first.state_dict())
    assert (again.union == np.eye(3, dtype=bool)).all()
