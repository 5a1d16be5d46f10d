"""Agreement of opinions with the tags: leave-one-out regressions, weights and soft labels."""

import numpy as np
import pytest
import torch

from aevlp.core.seeds import generator_for
from aevlp.damp import agreement
from aevlp.damp.agreement import TagRegression, agreed_log_odds, fit_agreement, found_labels, tag_beliefs
from aevlp.damp.agreement import soft_labels as soft_labels_with

EXPECTED = 1.6


def soft_labels(z, observed, expected):
    """Soft labels with tags that are all believed."""
    return soft_labels_with(z, observed, expected, (observed == 1).astype(np.float32))


def drawn_tags(images=40, classes=5, seed=0):
    """Tags [N, C] that vectors [N, 3] tell something about; the last images have none."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(images, 3))
    choice = np.argmax(vectors @ rng.normal(size=(3, classes)) + rng.normal(size=(images, classes)), 1)
    tags = np.eye(classes)[choice]
    tags[-3:] = 0
    return torch.from_numpy(vectors), torch.from_numpy(tags)


@pytest.mark.parametrize("row", [0, 7, 38])
def test_an_image_is_predicted_as_by_a_regression_without_it(row):
    vectors, tags = drawn_tags()
    fitted = TagRegression(vectors, tags)
    others = [i for i in range(len(tags)) if i != row and tags[i].any()]
    x, y = vectors[others] - fitted.mean, tags[others] - fitted.centre
    whole = vectors[tags.any(1)] - fitted.mean
    penalty = (whole**2).sum(0).mean() * torch.eye(3, dtype=torch.float64)  # of the whole set: it belongs to the method
    weights = torch.linalg.solve(x.T @ x + penalty, x.T @ y)
    views = torch.randn(1, 4, 3, generator=generator_for(0, "views"), dtype=torch.float64)
    found = fitted(views, vectors[[row]], tags[[row]])
    assert torch.allclose(found, (views - fitted.mean) @ weights + fitted.centre, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_unit_of_the_vectors_does_not_matter(scale):
    vectors, tags = drawn_tags()
    found, scaled = (TagRegression(each, tags).of_fitted(each, tags) for each in (vectors, scale * vectors))
    assert torch.allclose(found, scaled)


def test_a_large_set_is_fitted_in_parts_as_if_it_were_one(monkeypatch):
    vectors, tags = drawn_tags()
    fitted = TagRegression(vectors, tags)
    whole = fitted.of_fitted(vectors, tags)
    monkeypatch.setattr(agreement, "CHUNK", 7)
    assert torch.allclose(TagRegression(vectors, tags).of_fitted(vectors, tags), whole)
    # Those without a tag are not in the fit, whoever is predicted beside them.
    assert torch.allclose(whole[-3:], fitted.of_others(vectors[-3:, None]).squeeze(1).float())


def test_equal_vectors_give_every_image_the_same():
    _, tags = drawn_tags()
    vectors = torch.ones(len(tags), 4)
    found = TagRegression(vectors, tags)(vectors[:, None], vectors, tags)
    assert torch.allclose(found, tags.sum(0).div(37).expand_as(found))


def test_weights_are_those_of_who_knows_the_tags():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(4000, 6))
    tags = np.stack([rng.multinomial(1, row) for row in np.exp(z) / np.exp(z).sum(1, keepdims=True)]).astype(float)
    fitted = fit_agreement([z / 2, rng.normal(size=z.shape)], tags)
    assert fitted.weights[0] == pytest.approx(2, abs=0.2)
    assert fitted.weights[1] < 0.1
    assert np.abs(fitted.offsets).max() < 0.2
    assert fit_agreement([-z], tags).weights == 0  # an opinion is never turned round


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4])
def test_random_tags_are_counted_and_not_held_against_an_opinion(share):
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(6000, 6))
    tags = np.stack([rng.multinomial(1, row) for row in np.exp(z) / np.exp(z).sum(1, keepdims=True)]).astype(float)
    wrong = rng.random(6000) < share
    tags[wrong] = np.eye(6)[rng.integers(0, 6, wrong.sum())]
    fitted = fit_agreement([z / 2], tags)
    assert fitted.random_tags == pytest.approx(share, abs=0.04)
    assert fitted.weights[0] == pytest.approx(2, abs=0.25)
    beliefs = tag_beliefs(fitted([z / 2]), tags.astype(np.int8), fitted.random_tags)
    assert (beliefs[tags == 0] == 0).all()
    # As many tags are believed as were not drawn at random, and those that were are believed less.
    assert beliefs.sum() == pytest.approx(6000 * (1 - fitted.random_tags), rel=0.02)
    if share:
        assert beliefs.sum(1)[wrong].mean() < beliefs.sum(1)[~wrong].mean() - 0.1


def test_a_fit_is_the_likeliest_there_is():
    """Of opinions, offsets and random tags, no small change makes the tags likelier, less the penalty on offsets."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(500, 4)) + [1.5, 0, 0, -1.5]
    tags = np.eye(4)[(z + rng.gumbel(size=z.shape)).argmax(1)]
    tags[:150] = np.eye(4)[rng.integers(0, 4, 150)]
    opinions = [z - [1.5, 0, 0, -1.5] + rng.normal(size=z.shape) for _ in range(2)]
    fitted = fit_agreement(opinions, tags)
    best = np.concatenate([fitted.weights, fitted.offsets, [fitted.random_tags]])
    assert min(*fitted.weights, fitted.random_tags) > 0.1  # none is at its bound
    assert fitted.offsets[0] > 0.5 > -0.5 > fitted.offsets[3]

    def surprise(parameters):
        weights, offsets, random = parameters[:2], parameters[2:6], parameters[6]
        odds = np.exp(sum(w * opinion for w, opinion in zip(weights, opinions, strict=True)) + offsets)
        shares = (1 - random) * odds / odds.sum(1, keepdims=True) + random / 4
        return -np.log(shares[tags == 1]).sum() + (offsets**2).sum()

    for step in np.vstack([np.eye(7), -np.eye(7)]):
        assert surprise(best + 0.03 * step) > surprise(best)


def test_log_odds_are_weighted_opinions_and_offsets(monkeypatch):
    monkeypatch.setattr(agreement, "CHUNK", 2)
    opinions = [np.arange(15.0).reshape(5, 3), np.ones((5, 3))]
    found = agreement.Agreement(np.array([2.0, 3.0]), np.array([0.5, 0.0, -1.0]))(opinions)
    assert found.tolist() == (2 * opinions[0] + 3 + np.array([0.5, 0.0, -1.0])).tolist()
    assert found.dtype == np.float32  # a million images times a thousand classes


def test_a_few_random_tags_are_taken_for_none():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(6000, 6))
    tags = np.eye(6)[(z + rng.gumbel(size=z.shape)).argmax(1)]
    tags[:300] = np.eye(6)[rng.integers(0, 6, 300)]
    assert fit_agreement([z], tags).random_tags == 0


def test_the_belief_in_a_tag_is_its_probability_by_bayes():
    z = np.log(np.array([[0.7, 0.2, 0.1], [0.01, 0.01, 0.98]]))
    observed = np.array([[1, 0, 0], [1, 0, -1]], np.int8)
    found = tag_beliefs(z, observed, 0.3)
    assert found[:, 0] == pytest.approx([0.7 * 0.7 / (0.7 * 0.7 + 0.1), 0.7 * 0.01 / (0.7 * 0.01 + 0.1)])
    assert (found[:, 1:] == 0).all()
    assert (tag_beliefs(z, observed, 0.0) == (observed == 1)).all()


def test_labels_that_are_left_make_up_for_tags_that_are_doubted():
    z = np.random.default_rng(0).normal(size=(50, 6))
    observed = np.zeros(z.shape, np.int8)
    observed[:, 0] = 1
    tags = 0.4 * (observed == 1).astype(np.float32)
    soft = soft_labels_with(z, observed, EXPECTED, tags)
    assert (soft[:, 0] == tags[:, 0]).all()
    assert soft.sum() == pytest.approx(EXPECTED * 50, rel=1e-4)


def test_offsets_follow_how_often_a_class_is_the_tag():
    rng = np.random.default_rng(0)
    shares = np.array([0.6, 0.3, 0.1])
    tags = np.eye(3)[rng.choice(3, 3000, p=shares)]
    fitted = fit_agreement([rng.normal(size=tags.shape)], tags)
    odds = np.exp(fitted.offsets)
    assert odds / odds.sum() == pytest.approx(shares, abs=0.03)


def test_no_other_offsets_fit_better_than_those_that_are_found():
    rng = np.random.default_rng(1)
    opinion, tags = rng.normal(size=(30, 3)), np.eye(3)[rng.choice(3, 30, p=[0.7, 0.2, 0.1])]
    fitted = fit_agreement([opinion], tags)

    def cost(offsets):
        z = fitted.weights[0] * opinion + offsets
        q = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        return -(tags * np.log(q)).sum() + (offsets**2).sum()

    best = cost(fitted.offsets)
    for step in 0.05 * np.vstack([np.eye(3), -np.eye(3)]):
        assert cost(fitted.offsets + step) > best


def test_a_class_that_is_never_the_tag_is_not_ruled_out():
    rng = np.random.default_rng(0)
    tags = np.eye(3)[rng.integers(0, 2, 500)]
    assert fit_agreement([rng.normal(size=tags.shape)], tags).offsets[2] > -5


def test_the_first_opinion_speaks_for_classes_that_are_never_the_tag():
    """The others know nothing of them: against the classes with tags they have the odds that the first opinion gives alone."""
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(4000, 6))
    chosen = np.stack([rng.multinomial(1, row / row.sum()) for row in np.exp(z[:, :4])])
    tags = np.hstack([chosen, np.zeros((4000, 2))])
    first = z / 2 + rng.normal(size=z.shape)
    others = np.hstack([z[:, :4], np.full((4000, 2), -9.0)]) + rng.normal(size=z.shape)
    others += 5 * rng.normal(size=(4000, 1))  # what is the same for all classes of an image says nothing
    found, agreement = agreed_log_odds([first, others], tags)
    assert (agreement.weights > 0.2).all()

    def odds(values):
        return values[:, 4:] - np.log(np.exp(values[:, :4]).sum(1, keepdims=True))

    alone, _ = agreed_log_odds([first], tags)
    assert odds(found) == pytest.approx(odds(alone), abs=1e-4)
    fitted = fit_agreement([first[:, :4]], tags[:, :4])
    plain = np.hstack([fitted([first[:, :4]]), fitted.weights[0] * first[:, 4:]])
    assert odds(alone) == pytest.approx(odds(plain), abs=1e-4)
    assert np.corrcoef(odds(found).ravel(), z[:, 4:].ravel())[0, 1] > 0.4
    told, same = agreed_log_odds([first[:, :4], others[:, :4]], tags[:, :4])
    assert found[:, :4] == pytest.approx(told)
    assert agreement.weights == pytest.approx(same.weights)


def test_without_a_tag_all_opinions_count_alike():
    fitted = fit_agreement([np.zeros((4, 3)), np.ones((4, 3))], np.zeros((4, 3)))
    assert fitted.weights[0] == fitted.weights[1] > 0
    assert fitted.offsets.tolist() == [0, 0, 0]


def test_soft_labels_expect_what_is_left_to_find():
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=(500, 8))
    observed = np.zeros(z.shape, np.int8)
    observed[np.arange(500), rng.integers(0, 8, 500)] = 1
    observed[:50, 0] = -1
    soft, unknown = soft_labels(z, observed, EXPECTED), observed == 0
    assert (soft[observed == 1] == 1).all()
    assert (soft[observed == -1] == 0).all()
    assert soft[unknown].sum() == pytest.approx(EXPECTED * 500 - (observed == 1).sum())
    log_odds = np.log(soft[unknown] / (1 - soft[unknown]))
    assert np.ptp(log_odds - z[unknown]) < 1e-4  # the same shift everywhere, in float32


@pytest.mark.parametrize("expected", [0.5, 1.0, 50.0])
def test_any_number_of_labels_gives_finite_beliefs(expected):
    z = np.random.default_rng(0).normal(size=(20, 4))
    observed = np.zeros(z.shape, np.int8)
    observed[:, 0] = 1
    soft = soft_labels(z, observed, expected)
    assert ((soft >= 0) & (soft <= 1)).all()
    assert 0 < soft[:, 1:].mean() < 0.51  # at most half of the unknown labels


def test_nothing_is_left_to_believe_where_everything_is_known():
    observed = np.array([[1, -1], [-1, 1]], np.int8)
    assert soft_labels(np.zeros((2, 2)), observed, EXPECTED).tolist() == [[1, 0], [0, 1]]


def test_labels_are_the_same_however_many_cells_are_looked_at_at_a_time(monkeypatch):
    z = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    observed = np.zeros(z.shape, np.int8)
    observed[:, 0] = 1
    opinions = [z, z[::-1]]
    tags = (observed == 1).astype(np.float32)
    odds, soft = agreed_log_odds(opinions, tags)[0], soft_labels(z, observed, EXPECTED)
    monkeypatch.setattr(agreement, "CELLS", 7)
    monkeypatch.setattr(agreement, "CHUNK", 7)
    assert soft_labels(z, observed, EXPECTED) == pytest.approx(soft, abs=1e-6)
    assert agreed_log_odds(opinions, tags)[0] == pytest.approx(odds, abs=1e-5)


def test_where_all_labels_that_are_expected_are_known_a_few_are_still_looked_for():
    observed = np.eye(4, dtype=np.int8)[np.arange(200) % 4]
    z = np.random.default_rng(0).normal(size=(200, 4))
    soft = soft_labels(z, observed, 1.0)
    assert soft[observed == 0].sum() == pytest.approx(0.01 * 200, rel=1e-3)


def test_the_likeliest_labels_are_found_and_of_equals_the_first(monkeypatch):
    z = np.array([[9, 3, 1], [9, 3, 2], [9, 3, 4]], np.float32)
    observed = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0]], np.int8)
    # Two labels of each image: of the six unknown ones, the three likeliest.
    monkeypatch.setattr(agreement, "positive_weight_by_scores", lambda features, known: 2.0 * (known == 1))
    found = found_labels(z, observed)
    assert found.tolist() == [[0, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert found.dtype == np.int8  # a million images times a thousand classes
