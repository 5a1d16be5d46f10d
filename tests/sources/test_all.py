"""What every source promises, whichever it is."""

from typing import Any

import pytest
import torch

from aevlp.core.errors import UserError
from aevlp.sources import SOURCES
from tests.sources.tasks import epoch_of, make, some_labels, through_a_file

SHAPE = (11, 7)
# Options under which something happens in few epochs of few images.
LIVELY: dict[str, dict[str, Any]] = {
    "random": {},
    "ll-ct": {"delta": 0.1},
    "ll-cp": {"delta": 0.1},
    "apl": {"warmup": 1},
    "confident": {"threshold": 0.6, "warmup": 1},
    "estimates": {},
    "enhancer": {"learning_rate": 0.01},
}
NONE = {"apl": -1.0}  # what a row says where it has nothing to say; 0 for pseudo-labels


@pytest.mark.parametrize("name", LIVELY)
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(name):
    observed = some_labels(*SHAPE)
    whole, stopped, resumed = (make(name, observed, seed=3, **LIVELY[name]) for _ in range(3))
    for epoch in (1, 2):
        assert torch.equal(epoch_of(whole, epoch, 5, SHAPE), epoch_of(stopped, epoch, 5, SHAPE))
    resumed.load_state_dict(through_a_file(stopped.state_dict()))
    for epoch in (3, 4):
        assert torch.equal(epoch_of(whole, epoch, 5, SHAPE), epoch_of(resumed, epoch, 5, SHAPE))


@pytest.mark.parametrize("name", LIVELY)
def test_a_state_serves_more_than_once(name):
    observed = some_labels(*SHAPE)
    stopped, one, other = (make(name, observed, seed=3, **LIVELY[name]) for _ in range(3))
    epoch_of(stopped, 1, 5, SHAPE)
    epoch_of(stopped, 2, 5, SHAPE)
    state = through_a_file(stopped.state_dict())
    for source in (one, other):
        source.load_state_dict(state)
        epoch_of(source, 3, 5, SHAPE)
    assert torch.equal(epoch_of(one, 4, 5, SHAPE), epoch_of(other, 4, 5, SHAPE))


@pytest.mark.parametrize("name", ["ll-cp", "apl", "confident", "estimates", "enhancer"])
def test_what_a_checkpoint_keeps_matters(name):
    observed = some_labels(*SHAPE)
    whole, forgetful = (make(name, observed, seed=3, **LIVELY[name]) for _ in range(2))
    for epoch in (1, 2):
        epoch_of(whole, epoch, 5, SHAPE)
    assert not torch.equal(epoch_of(whole, 3, 5, SHAPE), epoch_of(forgetful, 3, 5, SHAPE))


@pytest.mark.parametrize("name", LIVELY)
def test_an_untouched_source_can_be_saved_and_restored(name):
    observed = some_labels(*SHAPE)
    one, other = (make(name, observed, seed=3, **LIVELY[name]) for _ in range(2))
    other.load_state_dict(through_a_file(other.state_dict()))
    assert torch.equal(epoch_of(one, 1, 5, SHAPE), epoch_of(other, 1, 5, SHAPE))


@pytest.mark.parametrize("name", [name for name in LIVELY if name not in ("estimates", "enhancer")])
def test_observed_labels_are_never_labelled(name):
    observed = some_labels(*SHAPE)
    source = make(name, observed, **LIVELY[name])
    none = NONE.get(name, 0)
    told = [epoch_of(source, epoch, 5, SHAPE) for epoch in range(1, 6)]
    assert (torch.stack(told)[:, torch.from_numpy(observed == 0)] != none).any()
    assert (torch.stack(told)[:, torch.from_numpy(observed != 0)] == none).all()
    assert (source.table[torch.from_numpy(observed != 0)] == none).all()


@pytest.mark.parametrize("name", LIVELY)
def test_the_global_generator_is_left_alone(name):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    source = make(name, some_labels(*SHAPE), **LIVELY[name])
    epoch_of(source, 1, 5, SHAPE)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", LIVELY)
def test_what_it_is_takes_a_line_and_a_paper(name):
    assert ": " in SOURCES[name].summary
    assert SOURCES[name].paper


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("ll-ct", "delta", -0.1),
        ("ll-cp", "delta", 1.1),
        ("apl", "warmup", -1),
        ("apl", "share", 1.1),
        ("confident", "threshold", 1.1),
        ("confident", "warmup", -1),
        ("estimates", "rate", -1.0),
        ("enhancer", "neighbours", -1),
        ("enhancer", "gamma", -1.0),
        ("enhancer", "delta", -1.0),
        ("enhancer", "learning_rate", -1.0),
    ],
)
def test_options_out_of_range_are_refused_by_name(name, option, value):
    with pytest.raises(UserError, match=f"--{name}.{option} must be .*, not {value}"):
        SOURCES[name].options(**{option: value})
