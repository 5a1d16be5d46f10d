import pytest
import torch
from torch import nn

from aevlp.core.errors import UserError
from aevlp.models.head_layers import BoostedMap, by_position, pooled
from aevlp.models.heads.boostlu import BoostOptions


@pytest.fixture
def features():
    """A map [2, 6, 3, 3]."""
    return torch.randn(2, 6, 3, 3, generator=torch.Generator().manual_seed(0))


def make(factor):
    torch.manual_seed(1)
    return BoostedMap(6, 4, factor)


def test_factor_1_is_average_pooling_and_a_linear_layer(features):
    head = make(1.0)
    plain = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
    plain[2].load_state_dict(dict(zip(("weight", "bias"), head.parameters(), strict=True)))
    assert torch.allclose(head(features), plain(features), atol=1e-6)


def test_the_factor_multiplies_positive_positions_only(features):
    head = make(5.0)
    weight, bias = head.parameters()
    found = head(features)
    signs = set()
    for n in range(2):
        for c in range(4):
            total = 0.0
            for y in range(3):
                for x in range(3):
                    value = bias[c].item() + sum(weight[c, d].item() * features[n, d, y, x].item() for d in range(6))
                    signs.add(value > 0)
                    total += 5 * value if value > 0 else value
            assert found[n, c].item() == pytest.approx(total / 9, abs=1e-5)
    assert signs == {True, False}


def test_training_and_evaluation_are_the_same(features):
    head = make(5.0)
    assert torch.equal(head.train()(features), head.eval()(features))


@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_tokens_before_the_square_are_no_positions(features, prefix):
    head = make(5.0)
    tokens = features.repeat_interleave(2, -1).repeat_interleave(2, -2).flatten(2).transpose(1, 2)  # 6 x 6 positions
    before = torch.full((2, prefix, 6), 1e6)
    assert torch.allclose(head(torch.cat([before, tokens], 1)), head(features), atol=1e-5)


def test_a_map_with_the_features_last_is_the_same_map(features):
    assert torch.equal(by_position(features.permute(0, 2, 3, 1)), by_position(features))


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 1, 1)])
def test_pooled_features_have_one_place(shape):
    features = torch.arange(12.0).reshape(shape)
    assert torch.equal(pooled(features), torch.arange(12.0).reshape(2, 6))


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_factor_that_is_not_positive_is_refused(factor):
    with pytest.raises(UserError, match=rf"--boostlu.factor must be above 0, not {factor}"):
        BoostOptions(factor)
