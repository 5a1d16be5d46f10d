import math

import pytest
import torch

from aevlp.damp.text import adjacency, class_embeddings, noise_weights


def naive_adjacency(texts, neighbours):
    rows = texts.tolist()
    count = len(rows)

    def cosine(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))

    table = []
    for i in range(count):
        cosines = [cosine(rows[i], rows[j]) for j in range(count)]
        kept = sorted(range(count), key=lambda j: -cosines[j])[:neighbours]
        others = [max(cosines[j], 0.0) if j in kept and j != i else 0.0 for j in range(count)]
        total = sum(others)
        table.append([0.8 if j == i else (0.2 * others[j] / total if total else 0.0) for j in range(count)])
    return torch.tensor(table, dtype=torch.float64)


@pytest.mark.parametrize("neighbours", [1, 2, 4, 9, None])
def test_adjacency_is_that_of_a_loop_over_classes(neighbours):
    texts = torch.randn(9, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = adjacency(texts, neighbours)
    assert torch.allclose(found, naive_adjacency(texts, neighbours or 9), atol=1e-12)


def test_a_class_without_similar_ones_keeps_only_its_diagonal():
    texts = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [-0.9, 0.1]])
    found = adjacency(texts)
    assert found[0].tolist() == pytest.approx([0.8, 0.0, 0.0])
    assert found[1:].sum(1).tolist() == pytest.approx([1.0, 1.0])


def test_more_neighbours_than_classes_means_all():
    texts = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(adjacency(texts, 312), adjacency(texts))


def test_weights_are_uniform_within_their_layer_bound():
    weights = noise_weights(64, torch.Generator().manual_seed(0))
    assert [tuple(w.shape) for w in weights] == [(64, 1024), (1024, 1024), (1024, 64)]
    for weight in weights:
        bound = 1 / math.sqrt(weight.shape[1])
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert weight.mean().abs() < bound / 50


def test_embeddings_follow_the_formula():
    texts = 5 * torch.randn(6, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = [w.double() for w in noise_weights(8, torch.Generator().manual_seed(2))]
    mix = naive_adjacency(texts, 3)
    hidden = texts
    for layer in range(3):
        hidden = mix @ hidden @ weights[layer]
        if layer < 2:
            hidden = torch.where(hidden > 0, hidden, 0.2 * hidden)
    expected = hidden + texts
    expected = expected / expected.norm(dim=1, keepdim=True)
    assert torch.allclose(class_embeddings(texts, weights, 3), expected, atol=1e-10)
    assert not torch.allclose(class_embeddings(texts, weights), expected, atol=1e-3)


def test_without_noise_the_texts_are_only_normalised():
    texts = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    assert torch.allclose(class_embeddings(texts, None), torch.tensor([[0.6, 0.8], [0.0, 1.0]]))


def test_the_same_seed_gives_the_same_noise():
    one, other = (noise_weights(16, torch.Generator().manual_seed(7)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
