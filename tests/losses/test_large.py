"""Which cells count as large, and how many."""

import pytest
import torch

from aevlp.losses.large import large_cells, large_count
from tests.losses import naive
from tests.losses.batches import labels


@pytest.mark.parametrize("count", [1, 2, 9, 20])
@pytest.mark.parametrize("seed", range(3))
def test_the_unknown_cells_with_the_largest_logits_are_large(count, seed):
    logits, observed = labels(seed)
    cells = large_cells(logits, observed, count)
    assert cells.dtype == torch.bool
    assert cells.sum() == count
    assert {tuple(cell) for cell in cells.nonzero().tolist()} == naive.large(logits, observed, count)
    assert logits[cells].min() > logits[(observed == 0) & ~cells].max()


def test_no_cell_is_large_for_a_count_of_0():
    cells = large_cells(*labels(0), 0)
    assert cells.dtype == torch.bool
    assert cells.shape == (7, 11)
    assert not cells.any()


@pytest.mark.parametrize("count", [60, 77, 1000])
def test_a_count_beyond_the_unknown_cells_means_all_of_them(count):
    logits, observed = labels(0)
    assert (observed == 0).sum() < 60
    assert torch.equal(large_cells(logits, observed, count), observed == 0)


def test_an_observed_cell_is_never_large():
    logits = torch.tensor([[9.0, 8.0, -7.0, -8.0]])
    observed = torch.tensor([[1, -1, 0, 0]], dtype=torch.int8)
    assert large_cells(logits, observed, 1).tolist() == [[False, False, True, False]]
    assert not large_cells(logits, torch.ones_like(observed), 4).any()


def test_ties_at_the_limit_are_all_large():
    logits = torch.tensor([[3.0, 1.0], [1.0, 0.0]])
    assert large_cells(logits, torch.zeros(2, 2, dtype=torch.int8), 2).tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    ("epoch", "cells", "delta", "grows", "count"),
    [
        (1, 1000, 0.5, True, 0),
        (1, 1000, 0.5, False, 0),
        (2, 1000, 0.002, True, 2),
        (2, 1001, 0.002, True, 3),
        (2, 77, 0.001, True, 1),
        (4, 1000, 0.1, True, 300),  # 1000 * 3 * 0.1 is above 300 in floating point
        (4, 1000, 0.1, False, 100),
        (9, 1000, 0.0011, False, 2),
        (5, 1000, 0, True, 0),
    ],
)
def test_counts_start_at_0_and_round_up(epoch, cells, delta, grows, count):
    assert large_count(epoch, cells, delta, grows=grows) == count
