"""Logits up to 100 either way, in every precision."""

import pytest
import torch

from aevlp.losses import LOSSES
from aevlp.losses.ll_cp import ll_cp
from aevlp.losses.ll_ct import ll_ct
from tests.losses.batches import keywords, labels, settings, third, values_of

EXTREMES = [-100.0, -50.0, -20.0, -1.0, 0.0, 1.0, 20.0, 50.0, 100.0]
PRECISIONS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def is_well_behaved(value, logits, dtype):
    value.backward()
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert value.isfinite()
    assert logits.grad.isfinite().all()
    assert logits.grad.any()


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_extreme_logits_give_finite_values_and_gradients(name, dtype):
    loss = LOSSES[name]
    values = values_of(loss.reads) if loss.reads else [0.0]
    rows = 3 * len(values)
    observed = torch.tensor([-1, 0, 1], dtype=torch.int8).repeat_interleave(len(values))[:, None].expand(rows, 9)
    read = torch.tensor(values, dtype=torch.float64).repeat(3)[:, None].expand(rows, 9)
    for options in settings(loss):
        logits = torch.tensor(EXTREMES).repeat(rows, 1).to(dtype).requires_grad_()
        given = keywords(loss, options, cells=logits.numel())
        is_well_behaved(loss.function(logits, observed, *([read] if loss.reads else []), **given), logits, dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_logits_of_half_precision_are_computed_with_in_float32(name, dtype):
    loss = LOSSES[name]
    drawn, observed = labels(0)
    logits = drawn.to(dtype)
    for options in settings(loss):
        given = [observed, *third(loss.reads, 0)]
        named = keywords(loss, options, cells=logits.numel())
        assert torch.equal(loss.function(logits, *given, **named), loss.function(logits.float(), *given, **named))


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("function", [ll_ct, ll_cp])
def test_extreme_logits_give_finite_corrections(function, dtype):
    logits = torch.tensor(EXTREMES).repeat(3, 1).to(dtype).requires_grad_()
    observed = torch.tensor([-1, 0, 1], dtype=torch.int8)[:, None].expand(3, 9)
    is_well_behaved(function(logits, observed, count=4), logits, dtype)
