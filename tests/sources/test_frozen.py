"""Labels that the classifier gives itself, for good: `apl` and `confident`."""

import numpy as np
import pytest
import torch

from aevlp.sources.apl import lowest
from tests.sources.tasks import make, moment, random_moment, some_labels

SHAPE = (23, 5)


def ends(source, epochs, observed):
    """The table after each epoch; passes over the images where they are needed only."""
    for epoch in range(1, epochs + 1):
        now = random_moment(epoch, epochs, *observed.shape)
        source.end_epoch(now)
        yield now.probabilities(), source.table.clone()


def naive_apl(observed, probabilities, epochs, warmup, tenths):
    """Class by class and epoch by epoch; the count in whole numbers."""
    table = np.full(observed.shape, -1.0, np.float32)
    for epoch in range(1, epochs):
        if epoch < warmup:
            continue
        p = probabilities[epoch - 1]
        for c in range(observed.shape[1]):
            take = tenths * int((observed[:, c] == 0).sum()) // (10 * (epochs - warmup))
            unknown = [(p[i, c], i) for i in range(len(observed)) if observed[i, c] == 0 and table[i, c] == -1]
            for value, i in sorted(unknown)[:take]:
                table[i, c] = value
    return table


@pytest.mark.parametrize(
    ("epochs", "warmup", "clipped", "tenths"), [(6, 2, 2, 9), (4, 5, 3, 9), (5, 1, 1, 7), (3, 2, 2, 10), (3, 0, 0, 9)]
)
def test_apl_freezes_the_least_likely_of_each_class(epochs, warmup, clipped, tenths):
    observed = some_labels(*SHAPE)
    steps = list(ends(make("apl", observed, warmup=warmup, share=tenths / 10), epochs, observed))
    expected = naive_apl(observed, [p.numpy() for p, _ in steps], epochs, clipped, tenths)
    assert np.array_equal(steps[-1][1].numpy(), expected)
    assert (expected >= 0).any()


def test_apl_counts_in_spite_of_floating_point():
    """0.7 * 90 is 62.999... there."""
    source = make("apl", np.zeros((90, 1), np.int8), warmup=1, share=0.7)
    source.end_epoch(moment(1, 2, p=torch.rand(90, 1, generator=torch.Generator().manual_seed(0))))
    assert (source.table >= 0).sum() == 63


def test_apl_takes_the_upper_of_equals_and_keeps_what_it_froze():
    observed = np.zeros((4, 1), np.int8)
    observed[1] = 1
    source = make("apl", observed, warmup=1, share=1.0)
    source.end_epoch(moment(1, 4, p=torch.tensor([[0.5], [0.1], [0.5], [0.5]])))
    assert source.table.flatten().tolist() == [0.5, -1, -1, -1]
    source.end_epoch(moment(2, 4, p=torch.tensor([[0.1], [0.1], [0.75], [0.25]])))
    assert source.table.flatten().tolist() == [0.5, -1, -1, 0.25]


def test_no_more_cells_are_the_lowest_than_may_be():
    eligible = torch.tensor([[True, False], [False, False], [True, True]])
    p = torch.tensor([[0.3, 0.1], [0.1, 0.2], [0.2, 0.3]])
    assert torch.equal(lowest(p, eligible, torch.tensor([3, 2])), eligible)
    assert lowest(p, eligible, torch.tensor([1, 0])).nonzero().tolist() == [[2, 0]]


def test_confident_labels_what_the_classifier_is_sure_of():
    observed = some_labels(*SHAPE)
    expected = np.zeros(observed.shape, np.int8)
    for epoch, (p, table) in enumerate(ends(make("confident", observed, threshold=0.8, warmup=3), 6, observed), start=1):
        for i, c in np.ndindex(*observed.shape):
            if 3 <= epoch < 6 and observed[i, c] == 0 and p[i, c] > 0.8:
                expected[i, c] = 1
        assert table.tolist() == expected.tolist()
        assert table.dtype == torch.int8
    assert expected.any()


def test_confident_wants_more_than_the_threshold():
    source = make("confident", np.zeros((1, 2), np.int8), threshold=0.75, warmup=1)
    source.end_epoch(moment(1, p=torch.tensor([[0.75, 0.76]])))
    assert source.table.tolist() == [[0, 1]]


@pytest.mark.parametrize("name", ["apl", "confident"])
def test_no_pass_over_the_images_before_the_warmup_is_over_or_after_the_last_epoch(name):
    source = make(name, some_labels(*SHAPE), warmup=3)
    for epoch in (1, 2, 6):
        source.end_epoch(moment(epoch, 6))
    with pytest.raises(AssertionError, match="a pass over the images"):
        source.end_epoch(moment(3, 6))


@pytest.mark.parametrize("name", ["apl", "confident"])
def test_a_run_of_one_epoch_needs_no_pass(name):
    make(name, some_labels(*SHAPE), warmup=1).end_epoch(moment(1, 1))
