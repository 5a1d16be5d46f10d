"""The value of every loss, cell by cell."""

import pytest
import torch

import aevlp.losses
from aevlp.losses import LOSSES
from aevlp.losses.em_apl import em_apl
from aevlp.losses.ll_cp import ll_cp
from aevlp.losses.ll_ct import ll_ct
from tests.losses import collected, naive
from tests.losses.batches import keywords, labels, settings, third


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize("seed", range(3))
def test_every_loss_is_the_mean_of_its_cells(name, seed):
    loss = LOSSES[name]
    counterpart = collected("NAIVE").get(name)
    assert counterpart, f'no file in tests/losses defines NAIVE = {{"{name}": ...}}, the loss in plain Python'
    logits, observed = labels(seed)
    arguments = (logits, observed, *third(loss.reads, seed))
    for options in settings(loss):
        for epoch in (1, 3, 8):
            given = keywords(loss, options, epoch)
            expected = counterpart(*arguments, **given)
            assert loss.function(*arguments, **given).item() == pytest.approx(expected, rel=1e-10), (options, epoch)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_every_option_of_every_loss_is_tested_away_from_its_default(name):
    options = LOSSES[name].options
    other = collected("OTHER_OPTIONS").get(name, {})
    same = [key for key, value in vars(options()).items() if other.get(key, value) == value]
    assert not same, f'no file in tests/losses defines OTHER_OPTIONS = {{"{name}": ...}} with other values of {same}'


@pytest.mark.parametrize("function", [ll_ct, ll_cp])
@pytest.mark.parametrize("count", [0, 1, 4, 31, 500])
@pytest.mark.parametrize("seed", range(3))
def test_corrections_are_the_means_of_their_cells(function, count, seed):
    logits, observed = labels(seed)
    value = function(logits, observed, count=count).item()
    assert value == pytest.approx(naive.ll_ct(logits, observed, count=count), rel=1e-10)


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.reads in ("pseudo", "soft_negative")])
def test_labels_read_beside_the_observed_ones_matter_only_where_nothing_is_observed(name):
    loss = LOSSES[name]
    logits, observed = labels(1)
    (before,), (other,) = third(loss.reads, 1), third(loss.reads, 2)
    given = keywords(loss, {})
    value = loss.function(logits, observed, before, **given)
    assert loss.function(logits, observed, other, **given) != value
    elsewhere = torch.where(observed == 0, before, other)
    assert loss.function(logits, observed, elsewhere, **given) == value


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_batch_of_one_row_and_one_class_has_a_finite_loss(name):
    loss = LOSSES[name]
    logits = torch.tensor([[0.3]], dtype=torch.float64)
    for label in (1, 0, -1):
        observed = torch.full((1, 1), label, dtype=torch.int8)
        assert loss.function(logits, observed, *third(loss.reads, 0, 1, 1), **keywords(loss, {}, cells=1)).isfinite()


def test_a_soft_negative_of_0_is_one():
    logits, observed = labels(0)
    observed = torch.zeros_like(observed)
    value = em_apl(logits, observed, torch.zeros_like(logits), alpha=5, beta=1)
    assert value.item() == pytest.approx(torch.nn.functional.softplus(logits).mean().item(), rel=1e-12)


def test_the_package_gives_the_functions_by_name():
    for loss in LOSSES.values():
        assert getattr(aevlp.losses, loss.function.__name__) is loss.function
    assert vars(aevlp.losses)["ll_ct"] is ll_ct
    assert vars(aevlp.losses)["ll_cp"] is ll_cp
