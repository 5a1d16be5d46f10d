import pytest
import torch
from torch.distributions import Normal, kl_divergence

from aevlp.core.errors import UserError
from aevlp.models.head_layers import Latent, divergence
from aevlp.models.heads.latent import LatentOptions

WIDTH, CLASSES, SIZE = 12, 3, 8


@pytest.fixture
def features():
    return torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(0))


def make(*, size=SIZE, samples=10, weight=1e-4, width=WIDTH):
    torch.manual_seed(1)
    return Latent(width, CLASSES, size=size, samples=samples, weight=weight)


def drawn(head, features, passes=2000):
    """Logits of as many passes in training, [passes, N, C]."""
    with torch.no_grad():
        many = head.train()(features.repeat(passes, 1))
    return many.reshape(passes, len(features), CLASSES)


def test_evaluation_is_deterministic_and_sets_no_penalty(features):
    head = make().eval()
    assert torch.equal(head(features), head(features))
    assert head.penalty is None


def test_training_draws_around_the_logits_of_evaluation(features):
    head = make()
    logits = drawn(head, features)
    assert not torch.equal(logits[0], logits[1])
    assert torch.allclose(logits.mean(0), head.eval()(features), atol=5 * logits.std().item() / 2000**0.5)


def test_more_samples_spread_less_as_the_mean_of_so_many_draws(features):
    head = make(samples=1)
    one = drawn(head, features).std(0)
    head.samples = 16
    assert torch.allclose(drawn(head, features).std(0), one / 4, rtol=0.15)


def test_the_spread_is_that_of_the_latent(features):
    head = make(samples=1)
    _, log_variance = head.latents(features)
    expected = (log_variance.exp() * head.weight.square()).sum(-1).sqrt()
    assert torch.allclose(drawn(head, features).std(0), expected, rtol=0.15)


def test_the_divergence_is_the_kl_divergence_from_the_standard_normal():
    mu, log_variance = torch.randn(2, 5, CLASSES, SIZE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    by_hand = kl_divergence(Normal(mu, (log_variance / 2).exp()), Normal(torch.zeros_like(mu), torch.ones_like(mu)))
    assert torch.allclose(divergence(mu, log_variance), by_hand.sum(-1).mean())
    assert divergence(torch.zeros(1, SIZE), torch.zeros(1, SIZE)) == 0


def test_the_penalty_is_the_weighted_divergence_of_the_last_pass_in_training(features):
    head = make(weight=0.5)
    head.train()(2 * features)
    head.train()(features)
    head.eval()(3 * features)
    assert torch.allclose(head.penalty, 0.5 * divergence(*head.latents(features)))


def test_the_penalty_teaches_mean_and_variance_and_the_layers_below(features):
    head = make()
    features.requires_grad_()
    head.train()(features)
    head.penalty.backward()
    mu, log_variance = head.encoder.weight.grad.chunk(2)
    for gradient in (mu, log_variance, head.gate.grad, head.narrow.weight.grad, features.grad):
        assert gradient.abs().max() > 0


def test_every_parameter_has_a_part_in_an_evaluation_pass(features):
    head = make().eval()
    head(features).sum().backward()
    assert all(parameter.grad is not None for parameter in head.parameters())


def test_a_map_of_one_place_is_pooled_features(features):
    head = make().eval()
    assert torch.equal(head(features[:, :, None, None]), head(features))


@pytest.mark.parametrize("width", [16, 2048])
def test_a_training_begins_undecided_and_not_drowned_in_noise(width):
    features = torch.randn(8, width, generator=torch.Generator().manual_seed(0))
    head = make(width=width, size=256)
    mu, log_variance = head.latents(features)
    assert mu.square().mean() < 1
    assert head.eval()(features).abs().max() < 1
    noise = (log_variance / 2).exp().mean() / head.samples**0.5
    assert 0.2 < noise / mu.std() < 1


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_reduced_precision_stays_finite(features, scale):
    head = make()
    with torch.autocast("cpu", torch.bfloat16):
        logits = head.train()(scale * features)
        loss = logits.sum() + head.penalty
    loss.backward()
    assert logits.isfinite().all()
    assert head.penalty.isfinite()
    assert head.penalty.dtype == torch.float32
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("size", 0, "from 1 to 65536"),
        ("samples", 0, "at least 1"),
        ("weight", -1.0, "at least 0"),
        ("weight", float("nan"), "at least 0"),
    ],
)
def test_options_out_of_range_are_refused(option, value, wanted):
    with pytest.raises(UserError, match=f"--latent.{option} must be {wanted}, not {value}"):
        LatentOptions(**{option: value})
