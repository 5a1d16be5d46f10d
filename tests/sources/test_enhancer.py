from math import log

import numpy as np
import pytest
import torch
from torch.distributions import Beta, kl_divergence

from aevlp.models import label_enhancer as enhancement
from aevlp.models.label_enhancer import Graph, Network, divergence_from_uniform, enhancement_loss, nearest, standardised
from tests.sources.tasks import make, moment, some_labels, through_a_file


def features(images: int, width: int = 5, seed: int = 0):
    return torch.randn(images, width, generator=torch.Generator().manual_seed(seed))


def naive_links(x, k):
    """[N, N] of 0 and 1, pair by pair."""
    links = np.eye(len(x))
    for i in range(len(x)):
        others = sorted((j for j in range(len(x)) if j != i), key=lambda j: float((x[i] - x[j]).square().sum()))
        for j in others[:k]:
            links[i, j] = links[j, i] = 1
    return links


@pytest.mark.parametrize("images", [1, 2, 3, 4, 5, 17])
def test_the_graph_links_each_image_to_its_nearest_ones(images, monkeypatch):
    monkeypatch.setattr(enhancement, "DISTANCES", 40)  # few rows at a time
    x = features(images)
    expected = naive_links(x, 3)
    graph = Graph(x, 3)
    rows = torch.randperm(images, generator=torch.Generator().manual_seed(1))[: images // 2 + 1]
    assert np.array_equal(graph.links(rows).numpy(), expected[np.ix_(rows.tolist(), rows.tolist())])
    means = np.stack([x.numpy()[expected[i] == 1].mean(0) for i in range(images)])
    assert graph.averaged(x).numpy() == pytest.approx(means, abs=1e-6)


def test_the_nearest_are_found_among_equals():
    assert nearest(torch.zeros(4, 2), 3).sort().values.tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]


def test_features_are_standardised_and_one_that_does_not_vary_is_nothing():
    x = torch.cat([100 + 7 * features(50), torch.full((50, 1), 3.0)], 1)
    scaled = standardised(x)
    assert scaled.mean(0).tolist() == pytest.approx([0] * 6, abs=1e-5)
    assert scaled[:, :5].std(0, correction=0).tolist() == pytest.approx([1] * 5, abs=1e-5)
    assert not scaled[:, 5].any()
    assert standardised(x[:1]).tolist() == [[0] * 6]


def test_the_divergence_is_that_of_the_distributions():
    d = torch.linspace(0.01, 0.99, 99, dtype=torch.float64, requires_grad=True)
    expected = kl_divergence(Beta(d, 1 - d), Beta(torch.ones_like(d), torch.ones_like(d)))
    assert divergence_from_uniform(d).tolist() == pytest.approx(expected.tolist(), rel=1e-9)
    ours, theirs = (torch.autograd.grad(value.sum(), d)[0] for value in (divergence_from_uniform(d), expected))
    assert ours[1:-1].tolist() == pytest.approx(theirs[1:-1].tolist(), rel=1e-7)


def test_the_divergence_and_its_gradient_are_finite_at_the_ends():
    d = torch.tensor([0.0, 1e-30, 1.0], requires_grad=True)
    value = divergence_from_uniform(d)
    (gradient,) = torch.autograd.grad(value.sum(), d)
    assert value.isfinite().all()
    assert gradient.isfinite().all()


def test_the_loss_is_the_sum_of_its_parts():
    x, observed = features(6), torch.from_numpy(some_labels(6, 4))
    output = Network(5, 4)(x)
    links = Graph(x, 2).links(torch.arange(6))
    d, labels = output.soft.sigmoid().double(), output.rebuilt_labels.sigmoid().double()

    def assume_negative(p):
        return np.mean([-log(v if y == 1 else 1 - v) for v, y in zip(p.flatten(), observed.flatten(), strict=True)])

    rebuilt = (
        (output.rebuilt_features - x).square().mean().item()
        + assume_negative(labels.detach())
        + (output.rebuilt_links - links).square().mean().item()
    )
    divergence = kl_divergence(Beta(d, 1 - d), Beta(torch.ones_like(d), torch.ones_like(d))).mean().item()
    loss = enhancement_loss(output, x, observed, links, gamma=0.3, delta=0.7).item()
    assert loss == pytest.approx(assume_negative(d.detach()) + 0.3 * rebuilt + 0.7 * divergence, rel=1e-5)


def soft_labels(observed, x, epochs, **options):
    source = make("enhancer", observed, **options)
    for epoch in range(1, epochs + 1):
        source.begin_epoch(moment(epoch, x=x))
    return source.table


def test_the_same_run_gives_the_same_soft_labels_and_another_seed_others():
    observed, x = some_labels(150, 4), features(150)  # more than one batch
    one, again, other = (soft_labels(observed, x, 2, seed=seed) for seed in (0, 0, 1))
    assert one.dtype == torch.float32
    assert one.shape == (150, 4)
    assert not one.requires_grad
    assert ((one > 0) & (one < 1)).all()
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_the_network_begins_as_the_seed_says():
    observed, x = some_labels(30, 4), features(30)
    one, other = (soft_labels(observed, x, 1, seed=seed, learning_rate=0.0) for seed in (0, 1))
    assert not torch.equal(one, other)


def test_the_order_of_the_images_follows_the_seed_and_the_epoch():
    """From the same network, over the same features, in batches."""
    observed, x = some_labels(150, 4), features(150)
    first = make("enhancer", observed)
    first.begin_epoch(moment(1, x=x))
    state = through_a_file(first.state_dict())

    def goes_on(seed, epoch):
        source = make("enhancer", observed, seed=seed)
        source.load_state_dict(state)
        source.begin_epoch(moment(epoch, x=x))
        return source.table

    assert torch.equal(goes_on(0, 2), goes_on(0, 2))
    assert not torch.equal(goes_on(0, 2), goes_on(0, 3))
    assert not torch.equal(goes_on(0, 2), goes_on(1, 2))


@pytest.mark.parametrize("neighbours", [0, 3])
@pytest.mark.parametrize("images", [1, 2, 65])
def test_few_images_and_a_last_batch_of_one_do_not_matter(images, neighbours):
    soft = soft_labels(np.zeros((images, 3), np.int8), features(images), 2, neighbours=neighbours)
    assert soft.isfinite().all()


def test_images_like_labelled_ones_get_their_label():
    """Two clusters; a label is observed in half the images of each, and the others are judged."""
    cluster = torch.arange(40) % 2
    x = torch.nn.functional.one_hot(cluster) + 0.05 * features(40, 2)
    observed = np.zeros((40, 2), np.int8)
    observed[range(20), cluster[:20]] = 1
    soft = soft_labels(observed, x, 40, learning_rate=0.01)[20:]
    own, other = soft.gather(1, cluster[20:, None]), soft.gather(1, 1 - cluster[20:, None])
    assert (own > other).all()


def test_the_features_are_those_of_the_epoch():
    observed = some_labels(30, 4)
    one, other = make("enhancer", observed), make("enhancer", observed)
    for source, seed in ((one, 1), (other, 2)):
        source.begin_epoch(moment(1, x=features(30)))
        source.begin_epoch(moment(2, x=features(30, seed=seed)))
    assert not torch.equal(one.table, other.table)


def test_the_network_learns_from_epoch_to_epoch():
    """Without learning, the same features would give the same soft labels."""
    observed, x = some_labels(30, 4), features(30)
    far, near = (soft_labels(observed, x, epochs, delta=0.0, learning_rate=0.01) for epochs in (1, 60))
    positive = torch.from_numpy(observed == 1)
    assert near[positive].mean() > far[positive].mean() + 0.1
    assert near[~positive].mean() < far[~positive].mean() - 0.1
