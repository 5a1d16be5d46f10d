from pathlib import Path

import numpy as np
import pytest

from aevlp.data.dataset import Paths
from aevlp.reports import examples as module
from aevlp.reports.examples import SplitPredictions, example_grid, most_informative

CLASSES = ("a", "b", "c")


def predictions(probabilities, labels, *, thresholds=(0.5, 0.5, 0.5), is_complete=True) -> SplitPredictions:
    names = tuple(f"{row}.jpg" for row in range(len(labels)))
    paths, known = Paths(Path("/set"), names), np.array(labels, np.int8)
    return SplitPredictions(paths, CLASSES, known, is_complete, np.array(probabilities), np.array(thresholds))


def test_the_furthest_from_its_threshold_comes_first_not_the_most_probable():
    made = predictions([[0.9, 0.1, 0.1], [0.1, 0.8, 0.1], [0.6, 0.1, 0.1]], [[-1, -1, 1]] * 3, thresholds=(0.85, 0.2, 0.5))
    wrong = example_grid(made, made.predicted & ~made.positive)
    assert [(e.name, e.label, e.probability, e.threshold) for e in wrong.examples] == [
        ("1.jpg", "b", 0.8, 0.2),
        ("0.jpg", "a", 0.9, 0.85),
    ]
    assert wrong.total == 2
    missed = example_grid(made, ~made.predicted & made.positive, lowest=True)
    assert [(e.name, e.label) for e in missed.examples] == [("0.jpg", "c"), ("1.jpg", "c")]
    assert (missed.total, missed.agreed) == (3, 3)  # one more than is shown of a class


def test_an_example_says_what_is_known_of_its_image():
    labels = [[1, -1, 1], [1, 1, -1]]
    shown = predictions(np.full((2, 3), 0.75), labels).example(0, 1)
    assert (shown.path, shown.truth, shown.others) == ("/set/0.jpg", False, ("a", "c"))
    assert predictions(np.full((2, 3), 0.75), labels).example(0, 0).others == ("c",)
    assert predictions(np.full((2, 3), 0.75), labels, is_complete=False).example(0, 1).truth is None


def test_of_many_labels_a_few_are_listed(monkeypatch):
    monkeypatch.setattr(module, "MOST_OTHERS", 1)
    assert predictions([[0.5] * 3], [[1, 1, 1]]).example(0, 1).others == ("a", "and 1 more")


def test_no_image_is_shown_twice_and_no_class_fills_the_grid():
    candidates = [(9.0, 0, 0), (8.0, 0, 1), (7.0, 1, 0), (6.0, 2, 0), (5.0, 3, 1), (4.0, 4, 1), (3.0, 5, 1)]
    assert most_informative(candidates) == [(0, 0), (1, 0), (3, 1), (4, 1)]
    assert most_informative(candidates, most=3) == [(0, 0), (1, 0), (3, 1)]
    assert most_informative(candidates[::-1]) == most_informative(candidates)


@pytest.mark.parametrize("is_complete", [True, False])
def test_what_is_found_is_counted_against_the_truth_where_it_is_known(is_complete):
    made = predictions([[0.9, 0.9, 0.1], [0.9, 0.1, 0.9]], [[1, 1, -1], [-1, 1, -1]], is_complete=is_complete)
    observed = np.array([[1, 0, 0], [0, 1, 0]])
    found = example_grid(made, made.predicted & (observed == 0))
    assert (found.total, found.agreed) == (3, 1 if is_complete else None)
    assert {e.name: e.truth for e in found.examples if e.label == "b"} == {"0.jpg": True if is_complete else None}
