"""Gradients: by differences where nothing is held constant, and by the formula with its constants frozen where some are."""

import pytest
import torch
from torch.autograd import gradcheck

from aevlp.losses import LOSSES
from aevlp.losses.gpr import gpr
from aevlp.losses.ll_cp import ll_cp
from aevlp.losses.ll_ct import ll_ct
from aevlp.losses.role import role
from tests.losses import collected
from tests.losses.batches import keywords, labels, settings, third

# k and v are constants to autograd, so differences see the loss only where they do not depend on p.
CONSTANT_WEIGHTS = {"w0": 0.0, "w1": 0.0, "sigma0": 1e9, "sigma1": 1e9}
FLAT = {"gr": CONSTANT_WEIGHTS, "gpr": CONSTANT_WEIGHTS, "soft-gpr": CONSTANT_WEIGHTS, "role": None}

GPR = {"w": 3.75, "b": -4.25, "mu": 0.65, "sigma": 1.25, "q1": 1.0, "q2": 0.01}
GPR |= {"q3": 0.9, "lambda1": 0.5, "lambda2": 0.7, "eta": 0.3, "expected_positives": 2.9}


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_gradients_agree_with_differences_where_nothing_is_held_constant(name):
    loss = LOSSES[name]
    flat = collected("FLAT").get(name, {})
    if flat is None:
        return  # the file that says so tests the gradient itself
    logits, observed = labels(3, 3, 5)
    read = third(loss.reads, 3, 3, 5)
    for options in settings(loss):
        given = keywords(loss, {**options, **flat}, cells=15)
        assert gradcheck(lambda z, given=given: loss.function(z, observed, *read, **given), [logits.requires_grad_()])


@pytest.mark.parametrize("function", [ll_ct, ll_cp])
def test_gradients_of_corrections_agree_with_differences(function):
    logits, observed = labels(3, 3, 5)
    assert gradcheck(lambda z: function(z, observed, count=3), [logits.requires_grad_()])


def test_weights_of_gpr_are_constants_to_autograd():
    logits, observed = labels(4, 4, 5)
    (pseudo,) = third("pseudo", 4, 4, 5)
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(gpr(logits, observed, pseudo, **GPR), logits)
    frozen = _gpr_with_frozen_weights(logits, logits.detach(), observed, pseudo)
    torch.testing.assert_close(gradient, *torch.autograd.grad(frozen, logits), rtol=1e-10, atol=1e-15)


def _gpr_with_frozen_weights(moved, at, observed, pseudo):
    """The loss at logits `moved` with k and v computed at logits `at`."""
    total = moved.new_zeros(())
    for row in range(len(moved)):
        for column in range(moved.shape[1]):
            p, p0 = moved[row, column].sigmoid(), at[row, column].sigmoid()
            y, label = observed[row, column].item(), pseudo[row, column].item()
            v = torch.exp(-((p0 - GPR["mu"]) ** 2) / (2 * GPR["sigma"] ** 2))
            k = torch.sigmoid(GPR["w"] * p0 + GPR["b"])
            if y == 1:
                cell = -p.log()
            elif y == -1:
                cell = -(1 - p).log()
            elif label == 0:
                cell = v * ((1 - k) * p + k * (1 - p ** GPR["q2"]) / GPR["q2"])
            elif label == -1:
                cell = v * -(1 - p).log()
            else:
                weight = (1 - v).clamp(GPR["lambda1"], GPR["lambda2"])
                cell = weight * -(0.1 * (1 - p).log() + 0.9 * p.log())
            total = total + cell
    expected = moved.sigmoid().sum(1).mean()
    return total / moved.numel() + GPR["eta"] * ((expected - GPR["expected_positives"]) / moved.shape[1]) ** 2


def test_classifier_and_estimates_of_role_are_fixed_targets_to_each_other():
    """What the logits learn is the formula with t a number and CE(t; p) gone, and the other way round."""
    logits, observed = labels(5)
    (estimated,) = third("estimated", 5)
    p, t = logits.sigmoid(), estimated.clone()
    value = role(logits.requires_grad_(), observed, estimated.requires_grad_(), expected_positives=1.7)
    gradients = torch.autograd.grad(value, [logits, estimated])
    learners = _learner(logits.sigmoid(), t, observed, 1.7), _learner(estimated, p, observed, 1.7)
    torch.testing.assert_close(gradients[0], *torch.autograd.grad(learners[0], logits), rtol=1e-10, atol=1e-15)
    torch.testing.assert_close(gradients[1], *torch.autograd.grad(learners[1], estimated), rtol=1e-10, atol=1e-15)


def _learner(own, target, observed, expected):
    """The half of role that probabilities `own` take part in, with the other's as a fixed target."""
    cross = torch.nn.functional.binary_cross_entropy(own, target, reduction="none") / 2
    cells = torch.where(observed == 1, cross - own.log() / 2, cross)
    cells = torch.where(observed == -1, -(1 - own).log(), cells)
    return cells.mean() + ((own.sum(1).mean() - expected) / own.shape[1]) ** 2 / 2


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_saturated_estimates_of_role_have_finite_gradients(value):
    logits, observed = labels(6)
    estimated = torch.full_like(logits, value, dtype=torch.float32, requires_grad=True)
    role(logits.float(), observed, estimated, expected_positives=2.0).backward()
    assert estimated.grad is not None
    assert estimated.grad.isfinite().all()
