from types import SimpleNamespace
from typing import Any

import pytest
import torch

from aevlp.config.run_options import TrainOptions
from aevlp.training import loop
from aevlp.training.loop import should_stop
from aevlp.training.setup import make_optimizer
from tests.cli.run import refused


@pytest.mark.parametrize(
    ("values", "stops"),
    [
        ([], False),
        ([50.0], False),
        ([50.0, 49.0], False),
        ([50.0, 49.0, 49.5], True),  # two epochs without a new best
        ([50.0, 50.0, 50.0], True),  # an equal is no new best
        ([50.0, 49.0, 51.0], False),
        ([50.0, 48.0], False),
        ([50.0, 47.9], True),  # a fall by more than two points
    ],
)
def test_training_stops_when_validation_no_longer_improves(values, stops):
    assert should_stop(values, patience=2, max_drop=2.0) == stops


def test_weights_that_are_no_longer_numbers_end_the_training(capsys, world, plain, tmp_path, monkeypatch):
    def diverge(learning, epoch):
        next(learning.model.parameters()).data.fill_(torch.inf)
        return 0.5

    monkeypatch.setattr(loop, "train_epoch", diverge)
    message = refused(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", "an")
    assert message.startswith("epoch 1: the weights are no longer finite numbers; lower --train.learning_rate or")
    assert not (tmp_path / "run" / "model").exists()


def test_without_limits_training_goes_on():
    assert not should_stop([50.0, 1.0, 1.0, 1.0], patience=None, max_drop=None)
    assert should_stop([50.0, 1.0], patience=None, max_drop=2.0)
    assert should_stop([50.0, 49.0, 49.0], patience=2, max_drop=None)


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamax", torch.optim.Adamax)])
def test_body_head_and_source_are_trained_at_their_own_rates(name, kind):
    body, head, own = (torch.nn.Parameter(torch.zeros(size)) for size in (1, 2, 3))
    classifier: Any = SimpleNamespace(body=lambda: [body], head=lambda: [head])
    source: Any = SimpleNamespace(parameters=lambda: [own], learning_rate=0.3)
    silent: Any = SimpleNamespace(parameters=list, learning_rate=0.3)
    options = TrainOptions(optimizer=name, learning_rate=0.1, head_learning_rate=0.2)
    made = make_optimizer(classifier, options, source)
    assert type(made) is kind
    assert [(group["params"], group["lr"]) for group in made.param_groups] == [([body], 0.1), ([head], 0.2), ([own], 0.3)]
    assert [group["lr"] for group in make_optimizer(classifier, options, silent).param_groups] == [0.1, 0.2]
    assert [group["lr"] for group in make_optimizer(classifier, options).param_groups] == [0.1, 0.2]
