from math import exp, log

import pytest
import torch

from aevlp.losses.hill import hill
from tests.losses.naive import rows_of, sigmoid

OTHER_OPTIONS = {"hill": {"slope": 2.0, "margin": 0.3, "gamma": 1.0}}


def naive(logits, observed, *, slope, margin, gamma):
    costs = []
    for z, y in (cell for row in rows_of(logits, observed) for cell in row):
        p = sigmoid(z)
        if y == 1:
            shifted = 1 / (1 + exp(margin - z))
            costs.append((1 - shifted) ** gamma * -log(shifted))
        else:
            costs.append(-log(1 - p) if y == -1 else (slope - p) * p**2)
    return sum(costs) / len(costs)


NAIVE = {"hill": naive}


def test_an_unknown_label_is_pushed_down_most_where_it_is_most_doubtful():
    p = torch.tensor([[0.05, 0.5, 0.95]], dtype=torch.float64)
    logits = p.logit().requires_grad_()
    loss = hill(logits, torch.zeros(1, 3, dtype=torch.int8), slope=1.5, margin=1.0, gamma=2.0)
    (gradient,) = torch.autograd.grad(loss, logits)
    # The cost's derivative is 3 p (1 - p), and that of p is p (1 - p).
    assert gradient[0].tolist() == pytest.approx((p * (1 - p)).square()[0].tolist(), rel=1e-9)
