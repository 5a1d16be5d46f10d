"""DAMP's settings chosen from embeddings: against a loop that makes the pseudo-labels of every setting."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from aevlp.damp import pseudo_labels, tuning
from aevlp.damp.labels import scores
from aevlp.damp.tuning import DampSettings, Sample, tune_complete, tune_estimated

WRONG = DampSettings(temperature=0.5, global_threshold=0.9, top_k=3, negative_fraction=0.2)
FEW: dict[str, Any] = {
    "TEMPERATURES": (0.02, 0.1, 0.5),
    "THRESHOLDS": (0.01, 0.1, 0.15, 0.2, 0.3, 0.5, 0.9),
    "TOP_KS": (1, 2, 3, 5, 9),
    "FRACTIONS": (0.0, 0.2, 0.4, 0.6, 0.8),
}


@pytest.fixture
def few(monkeypatch):
    """Few settings, so that a loop over all of them is quick."""
    for name, values in FEW.items():
        monkeypatch.setattr(tuning, name, values)


def seen(images=40, classes=6, tiles=4, noise=0.25, seed=0):
    """(embeddings [N, 1 + R, K], class embeddings [C, K], truth [N, C]): tiles that show one thing each, and a mixture."""
    rng = np.random.default_rng(seed)
    truth = np.full((images, classes), -1, np.int8)
    views = np.empty((images, 1 + tiles, classes + 3))
    for row in range(images):
        shown = rng.choice(classes, rng.integers(1, 4), replace=False)
        truth[row, shown] = 1
        views[row, 1:] = np.eye(classes + 3)[[*shown, *rng.choice([*shown, classes], tiles - len(shown))]]
        views[row, 0] = views[row, 1:].mean(0)
    views += noise * rng.normal(size=views.shape)
    return normalize(torch.from_numpy(views).float(), dim=-1), torch.eye(classes + 3)[:classes], truth


def shown_of(truth, seed=1):
    """One positive of each image."""
    rng = np.random.default_rng(seed)
    observed = np.zeros_like(truth)
    for row, labels in enumerate(truth):
        observed[row, rng.choice(np.flatnonzero(labels == 1))] = 1
    return observed


def labels_of(sample: Sample, setting: DampSettings) -> np.ndarray:
    """The pseudo-labels [N, C] that a training would see."""
    return pseudo_labels(
        *scores(sample.embeddings, sample.classes, setting.temperature),
        sample.observed,
        local_threshold=sample.local_threshold,
        global_threshold=setting.global_threshold,
        top_k=setting.top_k,
        negative_fraction=setting.negative_fraction,
        released_code=sample.released_code,
    ).numpy()


def naive_figures(sample, setting, truth):
    """(precision, recall, F0.5, share of positives that become negative) over the labels that are not observed, from loops."""
    labels = labels_of(sample, setting)
    hits = claims = wanted = wrong = 0
    for row, column in zip(*np.nonzero(sample.observed.numpy() == 0), strict=True):
        is_there, said = truth[row, column] == 1, labels[row, column]
        hits, claims, wanted = hits + (is_there and said == 1), claims + (said == 1), wanted + is_there
        wrong += is_there and said == -1
    precision, recall = (hits / claims if claims else 0.0), hits / wanted
    return precision, recall, 1.25 * hits / (claims + 0.25 * wanted), wrong / wanted


def naive_choice(sample, truth):
    """The settings with the best F0.5, and that F0.5."""
    settings = [DampSettings(*one, 0.0) for one in product(FEW["TEMPERATURES"], FEW["THRESHOLDS"], FEW["TOP_KS"])]
    reached = [naive_figures(sample, setting, truth)[2] for setting in settings]
    return [one for one, value in zip(settings, reached, strict=True) if value == max(reached)], max(reached)


def fraction_of(sample, setting, truth, most):
    """The largest share of negatives, up to `most`, that takes at most 2 % of the positives."""
    takes = {f: naive_figures(sample, DampSettings(setting.temperature, 2.0, 1, f), truth)[3] for f in FEW["FRACTIONS"]}
    return max(f for f, taken in takes.items() if taken <= 0.02 and f <= most)


@pytest.mark.parametrize(("seed", "local_threshold"), [(0, 0.3), (1, 0.0), (2, 0.0)])
def test_the_choice_is_that_of_a_loop_over_all_settings(few, seed, local_threshold):
    """The share of negatives is never more than was set: more of them cost more than they give."""
    embeddings, classes, truth = seen(80, seed=seed)
    sample = Sample(embeddings, classes, torch.from_numpy(shown_of(truth)), local_threshold)
    found = tune_complete(sample, truth, replace(WRONG, negative_fraction=0.8))
    setting, figures = found.chosen
    equals, reached = naive_choice(sample, truth)
    bare = replace(setting, negative_fraction=0.0)
    assert bare in equals
    assert naive_figures(sample, bare, truth)[2] == pytest.approx(reached)
    assert setting.negative_fraction == fraction_of(sample, setting, truth, 0.8)
    assert setting.negative_fraction >= 0.2
    assert tune_complete(sample, truth, WRONG).chosen[0].negative_fraction == fraction_of(sample, setting, truth, 0.2)
    assert (figures.precision, figures.recall, figures.f_half, figures.negatives_wrong) == pytest.approx(
        naive_figures(sample, setting, truth)
    )
    assert (found.basis, found.images) == ("complete", 80)


def test_the_figures_of_every_setting_shown_are_those_of_its_pseudo_labels():
    """With all settings that there are, also where negatives take positives away."""
    embeddings, classes, truth = seen(noise=0.5)
    sample = Sample(embeddings, classes, torch.from_numpy(shown_of(truth)), 0.0)
    before = DampSettings(0.1, 0.05, 5, 0.6)
    found = tune_complete(sample, truth, before)
    assert found.before[0] == before
    assert found.before[1].negatives_wrong > 0.02
    assert [setting.temperature for setting, _ in found.tried] == list(tuning.TEMPERATURES)
    for setting, figures in (found.before, found.chosen, *found.tried):
        named = (figures.precision, figures.recall, figures.f_half, figures.negatives_wrong)
        assert named == pytest.approx(naive_figures(sample, setting, truth))
    assert found.chosen[1].f_half > max(figures.f_half for _, figures in found.tried) - 0.05


@pytest.mark.parametrize("seed", range(3))
def test_labels_are_counted_by_the_setting_with_the_best_f1(few, seed):
    embeddings, classes, truth = seen(80, seed=seed)
    sample = Sample(embeddings, classes, torch.zeros(truth.shape, dtype=torch.int8), 0.0)
    mass, counted = (truth == 1).astype(float), np.ones(truth.shape, bool)
    widest = tuning._Search(sample, WRONG).widest(mass, counted)

    def f_one(setting):
        precision, recall, *_ = naive_figures(sample, replace(setting, negative_fraction=0.0), truth)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    settings = [DampSettings(*one, 0.0) for one in product(FEW["TEMPERATURES"], FEW["THRESHOLDS"], FEW["TOP_KS"])]
    assert f_one(widest) == pytest.approx(max(map(f_one, settings)))


def test_negatives_may_take_a_few_of_many_positives(few):
    embeddings, classes, truth = seen(400, noise=0.3)
    sample = Sample(embeddings, classes, torch.zeros(truth.shape, dtype=torch.int8), 0.0)
    setting, figures = tune_complete(sample, truth, replace(WRONG, negative_fraction=0.6)).chosen
    assert setting.negative_fraction == fraction_of(sample, setting, truth, 0.6) > 0
    assert 0 < figures.negatives_wrong <= 0.02


def test_the_rule_of_the_released_code_is_judged_as_it_labels(few):
    embeddings, classes, truth = seen()
    observed = shown_of(truth)
    observed[::3] = 0  # where nothing is observed that rule is another
    sample = Sample(embeddings, classes, torch.from_numpy(observed), 0.99, released_code=True)
    found = tune_complete(sample, truth, WRONG)
    for setting, figures in (found.chosen, *found.tried):
        precision, recall, f_half, _ = naive_figures(sample, setting, truth)
        assert (figures.precision, figures.recall, figures.f_half) == pytest.approx((precision, recall, f_half))


def test_observed_labels_alone_lead_to_settings_that_are_nearly_as_good():
    embeddings, classes, truth = seen(600)
    nothing = Sample(embeddings, classes, torch.zeros(truth.shape, dtype=torch.int8), 0.0)
    complete = tune_complete(nothing, truth, WRONG)
    estimated = tune_estimated(nothing, shown_of(truth), WRONG, None)
    assert (estimated.basis, estimated.images) == ("estimated", 600)
    reached = naive_figures(nothing, estimated.chosen[0], truth)
    assert naive_figures(nothing, WRONG, truth)[2] < 0.1
    assert reached[2] > complete.chosen[1].f_half - 0.05
    said = estimated.chosen[1]  # an estimate of what it would be on the truth
    assert (said.precision, said.recall, said.f_half) == pytest.approx(reached[:3], abs=0.1)


def test_images_without_any_label_change_nothing_but_their_number():
    embeddings, classes, truth = seen(200)
    observed = shown_of(truth)
    observed[100:] = 0
    parts = [Sample(embeddings[:n], classes, torch.zeros(n, 6, dtype=torch.int8), 0.0) for n in (100, 200)]
    half, whole = (tune_estimated(part, observed[: len(part.observed)], WRONG, None) for part in parts)
    assert (half.images, whole.images) == (100, 200)
    assert (half.before, half.chosen, half.tried) == (whole.before, whole.chosen, whole.tried)


def test_expected_positives_are_what_observed_labels_stand_for():
    embeddings, classes, truth = seen(100)
    nothing = Sample(embeddings, classes, torch.zeros(truth.shape, dtype=torch.int8), 0.0)
    few, many = (tune_estimated(nothing, shown_of(truth), WRONG, expected).chosen[1] for expected in (1.0, 4.0))
    assert few.precision < many.precision  # the more there is, the more of what is said is right


def test_where_there_is_nothing_to_find_the_settings_stay():
    embeddings, classes, truth = seen(10)
    everything = Sample(embeddings, classes, torch.from_numpy(truth), 0.0)
    found = tune_complete(everything, truth, WRONG)
    assert found.chosen == found.before
    assert found.chosen[1] == tuning.Figures(0.0, 0.0, 0.0, 0.0)


def test_a_teacher_that_knows_everything_has_perfect_figures():
    """As many labels are found as there are."""
    classes = torch.eye(5)
    truth = np.where(np.eye(5) == 1, 1, -1).astype(np.int8)
    views = classes[:, None].repeat(1, 3, 1)
    found = tune_complete(Sample(views, classes, torch.zeros(5, 5, dtype=torch.int8), 0.0), truth, WRONG).chosen[1]
    assert (found.precision, found.recall, found.f_half, found.negatives_wrong) == (1, 1, 1, 0)


def test_every_class_of_an_image_can_be_found():
    """The most labels per image may be the number of classes."""
    views = normalize(torch.ones(4, 3, 2), dim=-1)
    sample = Sample(views, torch.eye(2), torch.zeros(4, 2, dtype=torch.int8), 0.0)
    setting, figures = tune_complete(sample, np.ones((4, 2), np.int8), WRONG).chosen
    assert setting.top_k == 2
    assert figures.recall == 1


@pytest.mark.parametrize(("images", "classes"), [(1, 1), (1, 5), (3, 1), (2, 2)])
def test_very_few_images_and_classes(images, classes):
    embeddings = normalize(torch.randn(images, 3, 4, generator=torch.Generator().manual_seed(0)), dim=-1)
    texts = normalize(torch.randn(classes, 4, generator=torch.Generator().manual_seed(1)), dim=-1)
    truth = np.full((images, classes), -1, np.int8)
    truth[0, 0] = 1
    sample = Sample(embeddings, texts, torch.zeros(images, classes, dtype=torch.int8), 0.0)
    for found in (tune_complete(sample, truth, WRONG), tune_estimated(sample, np.maximum(truth, 0), WRONG, None)):
        assert 1 <= found.chosen[0].top_k <= classes
        assert 0 <= found.chosen[1].f_half <= 1


def test_batches_do_not_matter(monkeypatch):
    embeddings, classes, truth = seen(30)
    sample = Sample(embeddings, classes, torch.from_numpy(shown_of(truth)), 0.1)
    whole = sample.finals(0.1)
    monkeypatch.setattr(tuning, "BATCH", 7)
    for one, other in zip(whole, sample.finals(0.1), strict=True):
        assert one.shape == truth.shape
        assert np.allclose(one, other, atol=1e-6)
