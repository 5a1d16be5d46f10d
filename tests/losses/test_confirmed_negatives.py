"""A confirmed negative costs -log(1 - p) with weight 1, in every loss but soft-gpr.

Its gradient says so up to a constant, and what it costs when p is 0 says the rest.
"""

import pytest
import torch

from aevlp.losses import LOSSES
from aevlp.losses.ll_cp import ll_cp
from aevlp.losses.ll_ct import ll_ct
from aevlp.losses.soft_gpr import SoftGprOptions, soft_gpr
from tests.losses.batches import keywords, labels, mean_positives, settings, third


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"soft-gpr"}))
def test_a_confirmed_negative_has_the_gradient_of_its_cross_entropy_among_any_other_labels(name):
    loss = LOSSES[name]
    logits, observed = labels(2)
    assert {1, 0, -1} == set(observed.unique().tolist())
    logits.requires_grad_()
    for options in settings(loss):
        given = keywords(loss, options, expected=mean_positives(logits))
        value = loss.function(logits, observed, *third(loss.reads, 2), **given)
        (gradient,) = torch.autograd.grad(value, logits)
        expected = logits.detach().sigmoid() / logits.numel()
        torch.testing.assert_close(gradient[observed == -1], expected[observed == -1], rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("name", sorted(set(LOSSES) - {"soft-gpr"}))
def test_confirmed_negatives_that_are_certain_cost_nothing(name):
    loss = LOSSES[name]
    logits, observed = labels(2)
    certain = torch.full_like(logits, -100)
    read = [torch.zeros_like(argument) for argument in third(loss.reads, 2)]
    for options in settings(loss):
        value = loss.function(certain, torch.full_like(observed, -1), *read, **keywords(loss, options, expected=0.0))
        assert value.item() == pytest.approx(0, abs=1e-12)


def test_a_confirmed_negative_of_soft_gpr_is_an_unknown_label_that_nobody_believes():
    logits, observed = labels(2)
    (soft,) = third("soft", 2)
    given = {**SoftGprOptions().at(3, 8, 77), "expected_positives": 2.9}
    rejected = soft_gpr(logits, observed, soft, **given)
    unknown = soft_gpr(logits, observed.clamp(min=0), soft.masked_fill(observed == -1, 0), **given)
    assert rejected.item() == unknown.item()
    assert rejected.item() != soft_gpr(logits, observed.clamp(min=0), soft, **given).item()


@pytest.mark.parametrize("function", [ll_ct, ll_cp])
def test_corrections_leave_confirmed_negatives_alone(function):
    logits, observed = labels(2)
    value = function(logits, torch.full_like(observed, -1), count=10)
    assert value.item() == pytest.approx(torch.nn.functional.softplus(logits).mean().item(), rel=1e-12)
