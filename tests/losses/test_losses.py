import json

import pytest
import torch
from torch.autograd import gradcheck

from aevlp.losses import LOSSES
from aevlp.losses.an import an
from aevlp.losses.full import full
from aevlp.losses.gpr import GprOptions, gpr
from aevlp.losses.gr import GrOptions, gr
from tests.losses import naive
from tests.shared import shared_folder

GR = {"w": 3.75, "b": -4.25, "mu": 0.65, "sigma": 1.25, "q1": 1.0, "q2": 0.01}
GPR = {**GR, "q3": 0.9, "lambda1": 0.5, "lambda2": 0.7, "eta": 0.3, "expected_positives": 2.9}
CUB = {**GPR, "w": 9.0, "b": -7.4, "mu": 0.8, "sigma": 0.5, "q1": 1.5, "lambda1": 0.2, "lambda2": 0.8}


def cells(seed: int, rows: int = 7, classes: int = 11, dtype: torch.dtype = torch.float64):
    """Logits, observed and pseudo-labels with every combination of values, a row without a positive and one with several."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, generator=generator, dtype=dtype)
    observed = torch.randint(-1, 2, (rows, classes), generator=generator, dtype=torch.int8)
    observed[0] = 0
    pseudo = torch.randint(-1, 2, (rows, classes), generator=generator, dtype=torch.int8)
    return logits, observed, pseudo


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("options", [GPR, CUB])
def test_gpr_is_the_mean_of_its_cells(seed, options):
    logits, observed, pseudo = cells(seed)
    assert gpr(logits, observed, pseudo, **options).item() == pytest.approx(
        naive.gpr(logits, observed, pseudo, **options), rel=1e-10
    )


@pytest.mark.parametrize("seed", range(5))
def test_gr_and_an_are_the_means_of_their_cells(seed):
    logits, observed, _ = cells(seed)
    assert gr(logits, observed, **GR).item() == pytest.approx(naive.gr(logits, observed, **GR), rel=1e-10)
    assert an(logits, observed).item() == pytest.approx(naive.an(logits, observed), rel=1e-10)


def test_full_is_cross_entropy_with_the_truth():
    logits, observed, _ = cells(0)
    truth = torch.where(observed == 1, 1, -1).to(torch.int8)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, (truth == 1).double())
    assert full(logits, truth).item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_gpr_without_pseudo_labels_and_regulariser_is_gr(seed):
    logits, observed, pseudo = cells(seed)
    special = gpr(logits, observed, torch.zeros_like(pseudo), **{**GPR, "eta": 0.0})
    assert special.item() == gr(logits, observed, **GR).item()


@pytest.mark.parametrize("value", [1, -1])
def test_pseudo_labels_matter_only_where_nothing_is_observed(value):
    logits, observed, pseudo = cells(1)
    changed = torch.where(observed == 0, pseudo, torch.tensor(value, dtype=torch.int8))
    assert gpr(logits, observed, changed, **GPR).item() == gpr(logits, observed, pseudo, **GPR).item()


@pytest.mark.parametrize("name", ["an", "full", "gr"])
def test_confirmed_negatives_cost_their_cross_entropy(name):
    logits, observed, _ = cells(2)
    everywhere = torch.full_like(observed, -1)
    options = GR if name == "gr" else {}
    value = LOSSES[name].function(logits, everywhere, **options)
    assert value.item() == pytest.approx(torch.nn.functional.softplus(logits).mean().item(), rel=1e-12)


def test_confirmed_negatives_in_gpr_cost_their_cross_entropy_whatever_the_pseudo_label():
    logits, observed, pseudo = cells(2)
    value = gpr(logits, torch.full_like(observed, -1), pseudo, **{**GPR, "eta": 0.0})
    assert value.item() == pytest.approx(torch.nn.functional.softplus(logits).mean().item(), rel=1e-12)


def test_gradients_agree_with_differences_where_nothing_is_held_constant():
    """k and v are constants to autograd, so differences see the loss only where they do not depend on p: w = 0, sigma huge."""
    logits, observed, pseudo = cells(3, rows=3, classes=5)
    logits.requires_grad_()
    flat = {**GPR, "w": 0.0, "sigma": 1e9}
    assert gradcheck(lambda z: gpr(z, observed, pseudo, **flat), [logits])
    assert gradcheck(lambda z: gr(z, observed, **{k: flat[k] for k in GR}), [logits])
    assert gradcheck(lambda z: an(z, observed), [logits])


def test_weights_are_constants_to_autograd():
    """The gradient is that of the formula with k and v frozen at the present p, by differences."""
    logits, observed, pseudo = cells(4, rows=2, classes=3)
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(gpr(logits, observed, pseudo, **GPR), logits)
    step = 1e-6
    for row in range(2):
        for column in range(3):
            values = []
            for sign in (1, -1):
                moved = logits.detach().clone()
                moved[row, column] += sign * step
                values.append(_with_frozen_weights(moved, logits.detach(), observed, pseudo))
            difference = (values[0] - values[1]) / (2 * step)
            assert gradient[row, column].item() == pytest.approx(difference, abs=1e-8)


def _with_frozen_weights(moved, at, observed, pseudo):
    """The loss at logits `moved` with k and v computed at logits `at`."""
    total = 0.0
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
            total += cell.item()
    expected = moved.sigmoid().sum(1).mean().item()
    return total / moved.numel() + GPR["eta"] * ((expected - GPR["expected_positives"]) / moved.shape[1]) ** 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_extreme_logits_give_finite_values_and_gradients(name, dtype):
    extremes = torch.tensor([-100.0, -50.0, -20.0, -1.0, 0.0, 1.0, 20.0, 50.0, 100.0])
    logits = extremes.repeat(9, 1).to(dtype).requires_grad_()
    observed = torch.tensor([-1, 0, 1], dtype=torch.int8).repeat_interleave(3)[:, None].expand(9, 9)
    pseudo = torch.tensor([-1, 0, 1], dtype=torch.int8).repeat(3)[:, None].expand(9, 9)
    loss = LOSSES[name]
    options = loss.options(**({"expected_positives": 2.0} if name == "gpr" else {})).at(3, 8)
    value = loss.function(logits, observed, *([pseudo] if loss.reads_pseudo else []), **options)
    value.backward()
    assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert value.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize(
    ("epoch", "w", "b", "mu", "sigma"), [(1, 0.0, -2.0, 0.5375, 1.8125), (4, 3.75, -4.25, 0.65, 1.25), (8, 8.75, -7.25, 0.8, 0.5)]
)
def test_schedules_follow_their_lines(epoch, w, b, mu, sigma):
    now = GrOptions(w0=0, w1=10, b0=-2, b1=-8).at(epoch, 8)
    assert (now["w"], now["b"], now["mu"], now["sigma"]) == pytest.approx((w, b, mu, sigma), abs=1e-12)


RECIPES = {
    "voc": {"w1": 2, "b1": -2, "eta": 0.05, "expected_positives": 1.5},
    "coco": {"w1": 10, "b1": -8, "lambda1": 0.5, "eta": 0.001, "expected_positives": 2.9},
    "nus": {"w1": 10, "b1": -8, "lambda1": 0.5, "eta": 0.001, "expected_positives": 1.9},
    "cub": {"w1": 10, "b1": -8, "q1": 1.5, "lambda1": 0.2, "lambda2": 0.8, "eta": 0.01, "expected_positives": 31.4},
}


def test_reference_vectors_agree():
    cases = [case for case in json.loads((shared_folder() / "vectors" / "losses.json").read_text()) if case["kind"] in LOSSES]
    assert {case["kind"] for case in cases} >= {"gpr", "gr", "an"}
    for case in cases:
        loss = LOSSES[case["kind"]]
        logits = torch.tensor(case["logits"], dtype=torch.float64, requires_grad=True)
        labels = [torch.tensor(case[key], dtype=torch.int8) for key in ("observed", "pseudo") if key in case]
        if case["kind"] in ("gpr", "gr"):
            names = {"w1", "b1", "q1"} if case["kind"] == "gr" else RECIPES[case["recipe"]]
            options = (GprOptions if case["kind"] == "gpr" else GrOptions)(
                **{k: v for k, v in RECIPES[case["recipe"]].items() if k in names}
            ).at(case["epoch"], case["epochs"])
            assert options == pytest.approx(case["params"])
        value = loss.function(logits, *labels, **case["params"])
        (gradient,) = torch.autograd.grad(value, logits)
        expected = torch.tensor(case["grad"], dtype=torch.float64)
        assert value.item() == pytest.approx(case["loss"], rel=1e-5)
        assert (gradient - expected).abs().max() <= 1e-5 * expected.abs().max()
