"""What a loss's options are, what they refuse, and what they make of an epoch."""

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest

from aevlp.core.errors import UserError
from aevlp.losses import LOSSES
from aevlp.losses.gpr import GprOptions
from aevlp.losses.gr import GrOptions
from aevlp.losses.ll_r import LlROptions
from aevlp.losses.splc import SplcOptions


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_loss_is_called_with_its_labels_its_options_and_nothing_else(name):
    loss = LOSSES[name]
    given = set(loss.options().at(1, 8, 77)) | ({"expected_positives"} if loss.wants_expected_positives else set())
    parameters = inspect.signature(loss.function).parameters.values()
    assert {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} == given
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert positional == ["logits", "truth" if loss.needs_truth else "observed", *([loss.reads] if loss.reads else [])]
    assert "expected_positives" not in {field.name for field in fields(loss.options)}  # one number for all losses, not an option


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_summary_is_a_name_in_words_and_what_it_does(name):
    words, separator, what = LOSSES[name].summary.partition(": ")
    assert words
    assert words[0].isupper()
    assert separator
    assert what
    assert not what.endswith(".")


@pytest.mark.parametrize(
    ("name", "options", "wanted"),
    [
        ("an-ls", {"smoothing": 1.1}, "--loss.smoothing must be from 0 to 1, not 1.1"),
        ("an-ls", {"smoothing": float("nan")}, "--loss.smoothing must be from 0 to 1, not nan"),
        ("em", {"alpha": -1}, "--loss.alpha must be at least 0, not -1"),
        ("em-apl", {"alpha": -1}, "--loss.alpha must be at least 0, not -1"),
        ("em-apl", {"beta": -0.1}, "--loss.beta must be at least 0, not -0.1"),
        ("vlpl", {"alpha": -1}, "--loss.alpha must be at least 0, not -1"),
        ("vlpl", {"beta_pos": -0.1}, "--loss.beta_pos must be at least 0, not -0.1"),
        ("ll-r", {"delta": 2}, "--loss.delta must be from 0 to 1, not 2"),
        ("splc", {"margin": -1}, "--loss.margin must be at least 0, not -1"),
        ("splc", {"threshold": 60}, "--loss.threshold must be from 0 to 1, not 60"),
        ("splc", {"gamma": -2}, "--loss.gamma must be at least 0, not -2"),
        ("asl", {"gamma": -4}, "--loss.gamma must be at least 0, not -4"),
        ("asl", {"clip": 1}, "--loss.clip must be from 0 to below 1, not 1"),
        ("smile", {"mu": -0.5}, "--loss.mu must be from 0 to 1, not -0.5"),
        ("smile", {"rate": -0.5}, "--loss.rate must be at least 0, not -0.5"),
        ("gr", {"sigma0": 0}, "--loss.sigma0 must be above 0, not 0"),
        ("gpr", {"q1": -1}, "--loss.q1 must be above 0, not -1"),
        ("gpr", {"q3": 2}, "--loss.q3 must be from 0 to 1, not 2"),
        ("gpr", {"lambda3": 1.1}, "--loss.lambda3 must be from 0 to 1, not 1.1"),
        ("gpr", {"lambda1": 0.9}, "--loss.lambda1 must be from 0 to --loss.lambda2 (0.7), not 0.9"),
        ("gpr", {"eta": -1}, "--loss.eta must be at least 0, not -1"),
    ],
)
def test_a_value_out_of_range_is_refused(name, options, wanted):
    with pytest.raises(UserError) as error:
        LOSSES[name].options(**options)
    assert str(error.value) == wanted


@pytest.mark.parametrize(
    ("epoch", "w", "b", "mu", "sigma"), [(1, 0.0, -2.0, 0.5375, 1.8125), (4, 3.75, -4.25, 0.65, 1.25), (8, 8.75, -7.25, 0.8, 0.5)]
)
def test_schedules_follow_their_lines(epoch, w, b, mu, sigma):
    now = GrOptions(w0=0, w1=10, b0=-2, b1=-8).at(epoch, 8, 77)
    assert (now["w"], now["b"], now["mu"], now["sigma"]) == pytest.approx((w, b, mu, sigma), abs=1e-12)


@pytest.mark.parametrize("warmup", [0, 2])
def test_a_schedule_of_its_own_does_not_depend_on_the_epochs(warmup):
    """Epochs beyond the schedule keep its last values; fewer epochs are the first of it."""
    of_its_own, stretched = GprOptions(w1=10, schedule_epochs=4), GprOptions(w1=10)
    for epoch in range(1, 13):
        wanted = stretched.at(min(epoch, warmup + 4), warmup + 4, 77, warmup)
        assert of_its_own.at(epoch, 12, 77, warmup) == of_its_own.at(epoch, 3, 77, warmup) == wanted


def test_schedules_wait_for_the_warm_up():
    """During it they stand at their start; after it they are those of a training without it."""
    options = GrOptions(w0=0, w1=10, b0=-2, b1=-8)
    for epoch in (1, 2):
        now = options.at(epoch, 10, 77, warmup=2)
        assert (now["w"], now["b"], now["mu"], now["sigma"]) == (0, -2, 0.5, 2)
    for epoch in range(1, 9):
        assert options.at(epoch + 2, 10, 77, warmup=2) == pytest.approx(options.at(epoch, 8, 77), abs=1e-12)


def test_self_paced_correction_starts_in_the_second_epoch():
    assert [SplcOptions().at(epoch, 8, 77)["corrects"] for epoch in (1, 2, 8)] == [False, True, True]


def test_rejection_grows_with_the_epoch_and_the_batch():
    assert [LlROptions(delta=0.01).at(epoch, 8, 200) for epoch in (1, 2, 4)] == [{"count": 0}, {"count": 2}, {"count": 6}]
    assert LlROptions(delta=0.01).at(2, 8, 400) == {"count": 4}


def test_options_are_listed_without_loading_torch():
    code = "import sys, aevlp.losses; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
