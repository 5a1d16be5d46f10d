import numpy as np
import pytest

from aevlp.data.prevalence import ROUNDS, estimated_positive_weight, informative_rows, observed_like, positive_weight


def truths(images: int = 40, classes: int = 6, seed: int = 0) -> np.ndarray:
    """Int8 [N, C] in {1, -1}; every image has a positive."""
    rng = np.random.default_rng(seed)
    truth = np.where(rng.random((images, classes)) < 0.35, 1, -1).astype(np.int8)
    truth[np.arange(images), rng.integers(classes, size=images)] = 1
    return truth


def draw(truth: np.ndarray, rng: np.random.Generator, most: int = 1) -> np.ndarray:
    """Int8 [N, C] in {1, 0}: up to `most` of each image's positives, drawn with equal chances, image by image."""
    observed = np.zeros_like(truth)
    for row, labels in enumerate(truth):
        there = np.flatnonzero(labels == 1)
        observed[row, rng.choice(there, min(most, len(there)), replace=False)] = 1
    return observed


@pytest.mark.parametrize("most", [1, 2])
def test_the_weight_of_any_set_is_its_true_count_on_average_over_what_might_have_been_observed(most):
    truth = truths(12)
    there = truth == 1
    some = np.random.default_rng(7).random(truth.shape) < 0.3
    rng = np.random.default_rng(1)
    counts = np.array([positive_weight(draw(truth, rng, most), there.sum(1))[some].sum() for _ in range(1500)])
    off = (counts.mean() - there[some].sum()) / (counts.std() / np.sqrt(len(counts)))
    assert abs(off) < 4
    assert counts.std() > 0.5  # a single draw is off, so that the mean says something


def test_observed_labels_share_what_their_image_has():
    observed = np.array([[1, 0, 0], [1, 1, -1], [0, -1, 0], [1, 1, 1]], np.int8)
    weight = positive_weight(observed, np.array([2, 3, 5, 1]))
    assert weight.tolist() == [[2, 0, 0], [1.5, 1.5, 0], [0, 0, 0], [1, 1, 1]]  # never fewer than are observed


def test_expected_positives_set_the_mean_of_images_with_an_observed_label():
    observed = draw(truths(), np.random.default_rng(0))
    observed[::4] = 0
    weight = positive_weight(observed, np.random.default_rng(2).uniform(1, 5, len(observed)), 2.5)
    assert weight[(observed == 1).any(1)].sum(1).mean() == pytest.approx(2.5)
    assert not weight[::4].any()


def test_where_nothing_is_observed_there_is_no_weight():
    nothing = np.zeros((3, 2), np.int8)
    assert not positive_weight(nothing, np.full(3, 2.0), 2.0).any()
    assert not estimated_positive_weight(nothing, lambda weight: np.ones(weight.shape, bool), 2.0).any()


def test_where_everything_is_observed_the_weight_is_the_truth_whatever_is_found():
    truth = truths()
    assert np.array_equal(positive_weight(truth, (truth == 1).sum(1)), truth == 1)
    noise = np.random.default_rng(3).random(truth.shape) < 0.5
    assert np.array_equal(estimated_positive_weight(truth, lambda _: noise), truth == 1)


def test_an_image_has_what_is_found_in_it_and_what_is_observed_but_no_confirmed_negative():
    observed = np.array([[1, 0, 0, -1], [0, 1, 0, 0]], np.int8)
    found = np.array([[False, True, True, True], [False, False, False, False]])
    assert estimated_positive_weight(observed, lambda _: found).tolist() == [[3, 0, 0, 0], [0, 1, 0, 0]]


def test_a_weight_that_swings_between_two_states_comes_to_an_end():
    observed = np.array([[1, 0, 0]], np.int8)
    asked: list[float] = []

    def found(weight):
        asked.append(weight.sum())
        return np.array([[False, weight.sum() < 2, False]])

    assert estimated_positive_weight(observed, found).sum() in (1, 2)
    assert asked == [1, 2] * (ROUNDS // 2)


def test_images_of_which_nothing_is_known_are_not_informative():
    observed = np.array([[1, 0], [0, -1], [0, 0], [-1, -1], [1, -1]], np.int8)
    assert informative_rows(observed).tolist() == [True, False, False, True, True]


def test_images_are_shown_as_others_were_observed():
    truth = truths(3000)
    observed = np.zeros((4, 6), np.int8)
    observed[1, :1] = observed[2, :2] = observed[3, :2] = 1
    observed[1, 3] = -1  # does not count
    shown = observed_like(observed, truth, np.random.default_rng(0))
    assert shown.dtype == np.int8
    assert set(np.unique(shown)) == {0, 1}
    assert (truth[shown == 1] == 1).all()
    many = (truth == 1).sum(1) >= 2
    shares = np.bincount((shown == 1).sum(1)[many], minlength=3) / many.sum()
    assert shares == pytest.approx([0.25, 0.25, 0.5], abs=0.05)
    assert ((shown == 1).sum(1) <= (truth == 1).sum(1)).all()


def test_what_is_shown_is_any_of_the_positives():
    truth = np.tile(np.array([1, -1, 1, 1], np.int8), (3000, 1))
    shown = observed_like(np.array([[1, 0, 0, 0]], np.int8), truth, np.random.default_rng(0))
    assert (shown == 1).mean(0) == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3], abs=0.04)
