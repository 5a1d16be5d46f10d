import numpy as np
import pytest
import torch

from tests.sources.tasks import make, some_labels, task

INDEX = torch.tensor([3, 0])


def told(source, index=INDEX):
    return source.rows(index, torch.zeros(len(index), source.theta.shape[1]))


def test_estimates_begin_near_certain_where_observed_and_undecided_elsewhere():
    observed = some_labels(200, 9)
    t = told(make("estimates", observed), torch.arange(200)).detach().numpy()
    assert t[observed == 1] == pytest.approx(0.995)
    assert t[observed == -1] == pytest.approx(0.005, abs=1e-6)
    drawn = np.sort(t[observed == 0])
    assert 0.4 <= drawn[0] < 0.402
    assert 0.598 < drawn[-1] <= 0.6
    logits = np.log(drawn / (1 - drawn))
    assert abs(logits - np.linspace(logits[0], logits[-1], len(logits))).max() < 0.03  # evenly spread


def test_the_first_estimates_follow_the_seed():
    observed = some_labels(20, 9)
    one, again, other = (make("estimates", observed, seed=seed).theta for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_a_batch_teaches_its_own_rows_only():
    source = make("estimates", some_labels(5, 4))
    (theta,) = source.parameters()
    weights = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    (weights * told(source)).sum().backward()
    t = theta.detach()[INDEX].sigmoid()
    expected = torch.zeros(5, 4)
    expected[INDEX] = weights * t * (1 - t)
    torch.testing.assert_close(theta.grad, expected)


@pytest.mark.parametrize("processes", [2, 3])
def test_estimates_learn_alike_whatever_the_number_of_processes(processes):
    """Each of them computes the loss of the whole batch, times their number."""
    alone, one_of_many = (make("estimates", some_labels(5, 4), processes=n) for n in (1, processes))
    assert torch.equal(told(alone), told(one_of_many))
    told(alone).square().sum().backward()
    (processes * told(one_of_many).square().sum()).backward()
    torch.testing.assert_close(one_of_many.theta.grad, alone.theta.grad)


def test_estimates_learn_at_a_multiple_of_the_backbones_rate():
    source = make("estimates", some_labels(), rate=4.0)
    source.context = task(some_labels(), learning_rate=0.25)
    assert source.learning_rate == 1.0


def test_restoring_keeps_the_parameter_that_the_optimiser_holds():
    one, other = (make("estimates", some_labels(), seed=seed) for seed in (0, 1))
    held = other.theta
    other.load_state_dict(one.state_dict())
    assert other.parameters()[0] is held
    assert torch.equal(held, one.theta)
    with torch.no_grad():
        held += 1
    assert not torch.equal(held, one.theta)
