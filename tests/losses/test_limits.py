"""What a loss turns into at the limits of its options."""

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from aevlp.losses.an import an
from aevlp.losses.an_ls import an_ls
from aevlp.losses.asl import asl
from aevlp.losses.bce import bce
from aevlp.losses.cells import prior
from aevlp.losses.em import em
from aevlp.losses.em_apl import em_apl
from aevlp.losses.epr import epr
from aevlp.losses.full import full
from aevlp.losses.gpr import GprOptions, gpr
from aevlp.losses.gr import GrOptions, gr
from aevlp.losses.ll_cp import ll_cp
from aevlp.losses.ll_ct import ll_ct
from aevlp.losses.ll_r import ll_r
from aevlp.losses.smile import smile
from aevlp.losses.soft_gpr import SoftGprOptions, soft_gpr
from aevlp.losses.splc import SplcOptions, splc
from aevlp.losses.vlpl import vlpl
from aevlp.losses.wan import wan
from tests.losses.batches import labels, mean_positives, third


def exactly(expected):
    return pytest.approx(expected, rel=1e-12)


@pytest.fixture(params=range(3))
def batch(request):
    return labels(request.param)


def observed_only(logits, observed):
    """The cross-entropy of the observed cells, unknown ones at 0."""
    cells = torch.where(observed == 1, softplus(-logits), softplus(logits))
    return torch.where(observed == 0, 0.0, cells).mean().item()


def test_gpr_without_pseudo_labels_and_regulariser_is_gr(batch):
    logits, observed = batch
    options = {**GprOptions(eta=0).at(3, 8, 77), "expected_positives": 2.9}
    special = gpr(logits, observed, torch.zeros_like(observed), **options)
    assert special.item() == gr(logits, observed, **GrOptions().at(3, 8, 77)).item()


def test_soft_gpr_that_believes_all_or_nothing_is_gpr(batch):
    logits, observed = batch
    observed = observed.clamp(min=0)
    pseudo = (torch.rand_like(logits) < 0.5).to(torch.int8)
    hard = gpr(logits, observed, pseudo, **GprOptions(q3=1).at(3, 8, 77), expected_positives=2.9)
    believed = pseudo.double().masked_fill(observed == 1, 1)
    soft = soft_gpr(logits, observed, believed, **SoftGprOptions().at(3, 8, 77), expected_positives=2.9)
    assert soft.item() == exactly(hard.item())


def test_soft_gpr_takes_a_tag_that_nobody_believes_for_an_unknown_label(batch):
    logits, observed = batch
    given = {**SoftGprOptions().at(3, 8, 77), "expected_positives": 2.9}
    believed = torch.rand_like(logits)
    doubted = soft_gpr(logits, observed, believed.masked_fill(observed == 1, 0), **given)
    unknown = soft_gpr(logits, observed.clamp(max=0), believed.masked_fill(observed == 1, 0), **given)
    assert doubted.item() == exactly(unknown.item())


def test_full_is_cross_entropy_with_the_truth(batch):
    logits, observed = batch
    truth = torch.where(observed == 1, 1, -1).to(torch.int8)
    expected = binary_cross_entropy_with_logits(logits, (truth == 1).double())
    assert full(logits, truth).item() == exactly(expected.item())


def test_losses_that_doubt_nothing_are_an(batch):
    logits, observed = batch
    soft = torch.rand_like(logits)
    limits = {
        "no smoothing": an_ls(logits, observed, smoothing=0),
        "no pseudo-label": bce(logits, observed, torch.zeros_like(observed)),
        "only negative pseudo-labels": bce(logits, observed, torch.full_like(observed, -1)),
        "nothing rejected": ll_r(logits, observed, count=0),
        "nothing corrected": ll_ct(logits, observed, count=0),
        "nothing corrected for good": ll_cp(logits, observed, count=0),
        "no weight, no clip": asl(logits, observed, gamma=0, clip=0),
        "no weight, no margin": splc(logits, observed, margin=0, threshold=0.5, gamma=0, corrects=False),
        "nobody over the threshold": splc(logits, observed, margin=0, threshold=1, gamma=0, corrects=True),
        "one positive, no enhancement": smile(logits, observed, soft, mu=0, rate=1, expected_positives=1),
        "less than one positive": smile(logits, observed, soft, mu=0, rate=1, expected_positives=0.2),
    }
    expected = an(logits, observed).item()
    assert {what: value.item() for what, value in limits.items()} == exactly(dict.fromkeys(limits, expected))


def test_weak_negatives_of_two_classes_are_not_weak():
    logits, observed = labels(0, classes=2)
    assert wan(logits, observed).item() == exactly(an(logits, observed).item())


def test_the_prior_of_an_unknown_label_counts_the_other_classes():
    assert prior(1.5, 2) == 0.5
    assert prior(3, 5) == 0.5
    assert [prior(m, 5) for m in (0.5, 9)] == [0, 1]
    assert prior(1.5, 1) == 0  # there is no other class


def test_losses_that_ask_nothing_of_unknown_cells_are_those_of_the_observed(batch):
    logits, observed = batch
    limits = {
        "no entropy": em(logits, observed, alpha=0),
        "no entropy, no pseudo-labels": vlpl(logits, observed, torch.ones_like(observed), alpha=0, beta_pos=0),
        "no entropy, no soft negatives": em_apl(logits, observed, torch.rand_like(logits), alpha=0, beta=0),
        "as many as expected": epr(logits, observed, expected_positives=mean_positives(logits)),
        "all unknown rejected": ll_r(logits, observed, count=77),
        "no enhancement, no rate": smile(logits, observed, torch.rand_like(logits), mu=0, rate=0, expected_positives=2.9),
    }
    expected = observed_only(logits, observed)
    assert {what: value.item() for what, value in limits.items()} == exactly(dict.fromkeys(limits, expected))


def test_losses_that_take_every_unknown_cell_for_a_positive_agree(batch):
    logits, observed = batch
    limits = {
        "all pseudo-labels positive": bce(logits, observed, torch.ones_like(observed)),
        "all corrected": ll_ct(logits, observed, count=77),
        "everybody over the threshold": splc(logits, observed, margin=0, threshold=0, gamma=0, corrects=True),
        "all expected": smile(logits, observed, torch.zeros_like(logits), mu=0, rate=1, expected_positives=11),
        "more than all expected": smile(logits, observed, torch.zeros_like(logits), mu=0, rate=1, expected_positives=40),
    }
    expected = an(logits, torch.where(observed == 0, 1, observed)).item()
    assert {what: value.item() for what, value in limits.items()} == exactly(dict.fromkeys(limits, expected))


@pytest.mark.parametrize("none", [float("nan"), -1.0])
def test_without_pseudo_labels_only_the_entropy_is_left(batch, none):
    logits, observed = batch
    expected = em(logits, observed, alpha=0.3).item()
    assert em_apl(logits, observed, torch.full_like(logits, none), alpha=0.3, beta=9).item() == expected
    assert vlpl(logits, observed, torch.full_like(observed, -1), alpha=0.3, beta_pos=9).item() == expected
    assert vlpl(logits, observed, torch.zeros_like(observed), alpha=0.3, beta_pos=9).item() == expected


def test_smile_that_believes_the_enhanced_labels_fully_is_cross_entropy_with_them(batch):
    logits, observed = batch
    (soft,) = third("soft", 0)
    cells = binary_cross_entropy_with_logits(logits, torch.where(observed == -1, 0.0, soft))
    assert smile(logits, observed, soft, mu=1, rate=1, expected_positives=2.9).item() == exactly(cells.item())


def test_splc_before_its_second_epoch_is_a_focal_loss_with_a_margin(batch):
    logits, observed = batch
    positive, negative = (logits - 1).sigmoid(), logits.sigmoid()
    focal = torch.where(observed == 1, (1 - positive) ** 2 * softplus(1 - logits), negative**2 * softplus(logits))
    expected = torch.where(observed == -1, softplus(logits), focal).mean().item()
    first, second = (splc(logits, observed, **SplcOptions().at(epoch, 8, 77)).item() for epoch in (1, 2))
    assert first == pytest.approx(expected, rel=1e-10)
    assert second < first  # a cell it is confident of costs less as the positive it is taken for


@pytest.mark.parametrize("gamma", [0, 0.5, 4])
def test_an_unknown_cell_up_to_the_clip_of_asl_costs_nothing_and_moves_nothing(gamma):
    logits = torch.tensor([[-9.0, -3.0, -2.95, -2.9]], requires_grad=True)  # p is 0.0001, 0.047, 0.0497, 0.052
    observed = torch.zeros(1, 4, dtype=torch.int8)
    cost = asl(logits[:, :3], observed[:, :3], gamma=gamma, clip=0.05)
    assert cost == 0
    assert torch.autograd.grad(cost, logits)[0].tolist() == [[0, 0, 0, 0]]
    assert asl(logits, observed, gamma=gamma, clip=0.05) > 0


def test_an_unknown_cell_right_at_the_clip_of_asl_has_a_finite_gradient():
    logits = torch.zeros(1, 1, requires_grad=True)  # p is 0.5
    cost = asl(logits, torch.zeros(1, 1, dtype=torch.int8), gamma=0.5, clip=0.5)
    assert torch.autograd.grad(cost, logits)[0].isfinite().all()
