"""Labels from large losses: `ll-ct` and `ll-cp`."""

from math import ceil

import numpy as np
import pytest
import torch

from tests.sources.tasks import make, moment, some_labels

OBSERVED = some_labels(12, 6)


def batches(epoch):
    """Three batches of four images, in another order every epoch, with logits that are all different."""
    generator = torch.Generator().manual_seed(epoch)
    for index in torch.randperm(12, generator=generator).split(4):
        yield index, torch.randn(4, 6, generator=generator)


def largest(labels, logits, k):
    """The k unknown cells of a batch with the largest logits, one by one; with distinct losses there are no ties."""
    unknown = [(z, (i, c)) for i, row in enumerate(logits.tolist()) for c, z in enumerate(row) if labels[i][c] == 0]
    return [cell for _, cell in sorted(unknown, reverse=True)[:k]]


def test_ll_ct_labels_the_largest_of_each_batch_and_more_each_epoch():
    source = make("ll-ct", OBSERVED, delta=0.06)
    for epoch in (1, 2, 3):
        source.begin_epoch(moment(epoch))
        used = np.zeros_like(OBSERVED)
        for index, logits in batches(epoch):
            rows = source.rows(index, logits)
            expected = np.zeros((4, 6), np.int8)
            for i, c in largest(OBSERVED[index], logits, ceil(24 * (epoch - 1) * 0.06)):
                expected[i, c] = used[index[i], c] = 1
            assert rows.tolist() == expected.tolist()
            assert rows.dtype == torch.int8
        assert source.table.tolist() == used.tolist()
        assert used.sum() == 3 * ceil(24 * (epoch - 1) * 0.06)


def test_ll_cp_labels_the_largest_for_good_and_new_ones_each_time():
    source = make("ll-cp", OBSERVED, delta=0.06)
    kept = np.zeros_like(OBSERVED)
    for epoch in (1, 2, 3, 4):
        source.begin_epoch(moment(epoch))
        for index, logits in batches(epoch):
            for i, c in largest(OBSERVED[index] + kept[index], logits, ceil(24 * 0.06) if epoch > 1 else 0):
                kept[index[i], c] = 1
            rows = source.rows(index, logits)
            assert rows.tolist() == kept[index].tolist()
            assert rows.dtype == torch.int8
        assert source.table.tolist() == kept.tolist()
    assert kept.sum() == 3 * 3 * ceil(24 * 0.06)


@pytest.mark.parametrize("name", ["ll-ct", "ll-cp"])
def test_an_image_that_fills_up_a_batch_twice_keeps_both_its_labels(name):
    source = make(name, np.zeros((2, 3), np.int8), delta=0.3)
    source.begin_epoch(moment(2))
    source.rows(torch.tensor([1, 1]), torch.tensor([[9.0, 0, 0], [0, 9.0, 0]]))
    assert source.table.tolist() == [[0, 0, 0], [1, 1, 0]]


@pytest.mark.parametrize("name", ["ll-ct", "ll-cp"])
def test_a_batch_without_unknown_labels_is_left_alone(name):
    observed = np.array([[1, -1], [-1, 1]], np.int8)
    source = make(name, observed, delta=1.0)
    source.begin_epoch(moment(2))
    assert not source.rows(torch.tensor([0, 1]), torch.zeros(2, 2)).any()
