"""Two models on the same images: figures, intervals, and the labels that changed."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score

from aevlp.core.errors import UserError
from aevlp.data.dataset import Split
from aevlp.inference.rounds import _difference, _require_complete, average_precisions, macro_f1

IMAGES, CLASSES = 60, 5


@pytest.fixture
def truth():
    found = np.random.default_rng(0).random((IMAGES, CLASSES)) < 0.3
    found[:, 3] = False
    return found


def scores(truth, strength: float, seed: int):
    return truth * strength + np.random.default_rng(seed).normal(size=truth.shape)


def test_average_precision_is_scikit_learns_with_weights(truth):
    found = scores(truth, 1.0, 1)
    weights = np.random.default_rng(2).exponential(size=(3, IMAGES))
    ap = average_precisions(found, truth, weights)
    for row, weight in enumerate(weights):
        for column in (0, 1, 2, 4):
            wanted = 100 * average_precision_score(truth[:, column], found[:, column], sample_weight=weight)
            assert ap[row, column] == pytest.approx(wanted)
    assert np.isnan(ap[:, 3]).all()  # no image has the class


def test_macro_f1_is_scikit_learns_with_weights(truth):
    given = scores(truth, 1.0, 1) > 0.5
    given[:, 3] = False
    weights = np.random.default_rng(2).exponential(size=(2, IMAGES))
    for value, weight in zip(macro_f1(given, truth, weights), weights, strict=True):
        wanted = [100 * f1_score(truth[:, c], given[:, c], sample_weight=weight) for c in (0, 1, 2, 4)]
        assert value == pytest.approx(np.mean(wanted))


def test_the_interval_of_a_difference_holds_zero_where_nothing_changed_and_not_where_much_did(truth):
    weights = np.concatenate([np.ones((1, IMAGES)), np.random.default_rng(3).exponential(size=(500, IMAGES))])
    weak, same, strong = (
        np.nanmean(average_precisions(scores(truth, strength, seed), truth, weights), axis=1)
        for strength, seed in ((0.5, 1), (0.5, 7), (4.0, 1))
    )
    assert not _difference("mAP", weak, same).is_certain
    better = _difference("mAP", weak, strong)
    assert better.is_certain
    assert better.before is not None
    assert better.after is not None
    assert better.low < better.after - better.before < better.high


def test_images_that_are_not_fully_labelled_are_refused():
    observed = np.zeros((20, 2), np.int8)
    names = tuple(f"{row}.jpg" for row in range(20))
    split = Split("val", Path("photos"), names, np.array(names, "S16"), observed, None)
    with pytest.raises(UserError, match=r"photos: the split 'val' has 20 images that are not fully labelled; two models are"):
        _require_complete(split)
    few = Split("val", Path("photos"), names[:3], split.digests[:3], observed[:3] - 1, observed[:3] - 1)
    with pytest.raises(UserError, match=r"the split 'val' has 3 images; two models are compared on 10 or more"):
        _require_complete(few)
