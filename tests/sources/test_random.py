import numpy as np
import pytest
import torch

from aevlp.losses.cells import prior
from tests.sources.tasks import make, moment, some_labels


def tables(source, m, epochs=3):
    for epoch in range(1, epochs + 1):
        source.begin_epoch(moment(epoch, m=m))
        yield source.table.clone()


def test_unknown_labels_are_positive_as_often_as_expected():
    observed = np.zeros((2000, 21), np.int8)
    observed[:, 0] = 1
    (table,) = tables(make("random", observed), 5.0, 1)
    assert table.dtype == torch.int8
    assert table.float().sum(1).mean().item() == pytest.approx(4, abs=0.2)  # and one is observed
    assert table[:, 1:].float().mean(0).std() < 0.02  # all classes alike


def test_every_epoch_draws_anew_unless_fixed():
    observed = some_labels(40, 10)
    one, two, three = tables(make("random", observed), 4.0)
    assert not torch.equal(one, two)
    assert not torch.equal(two, three)
    fixed = list(tables(make("random", observed, fixed=True), 4.0))
    assert all(torch.equal(table, one) for table in fixed)


def test_draws_follow_the_seed():
    observed = some_labels(40, 10)
    (one,), (again,), (other,) = (tables(make("random", observed, seed=seed), 4.0, 1) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(("m", "classes", "expected"), [(0.5, 4, 0), (1, 4, 0), (2.5, 4, 0.5), (9, 4, 1), (1, 1, 0), (3, 1, 0)])
def test_the_prior_is_a_probability_whatever_is_expected(m, classes, expected):
    assert prior(m, classes) == expected


def test_a_single_class_gets_no_labels():
    (table,) = tables(make("random", np.zeros((5, 1), np.int8)), 1.0, 1)
    assert not table.any()
