"""A model beside chance and beside its teacher: the figures, and when a warning is given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aevlp.data.dataset import Split
from aevlp.training.baselines import Baselines, compare_with_baselines, mean_average_precisions
from aevlp.training.evaluate import ranking_metrics

CLASSES = list("abcdef")


def split_of(observed, truth=None) -> Split:
    names = tuple(f"{row}.png" for row in range(len(observed)))
    return Split("val", Path("photos"), names, np.array(names, "S16"), observed, truth)


def compared(split: Split, model, teacher, seed: int) -> Any:
    return compare_with_baselines(split, model, teacher, seed)


def labels_of(rng, images: int = 300) -> np.ndarray:
    return np.where(rng.random((images, len(CLASSES))) < 0.2, 1, -1).astype(np.int8)


def seen(rng, labels, strength: float) -> np.ndarray:
    return strength * (labels == 1) + rng.standard_normal(labels.shape)


@pytest.mark.parametrize("ties", [False, True])
def test_the_map_of_a_sample_is_that_of_its_images_as_often_as_they_count(ties):
    rng = np.random.default_rng(0)
    labels = labels_of(rng, 60)
    labels[:, 5] = -1  # a class without a positive counts 0
    scores = seen(rng, labels, 1.0)
    if ties:
        scores = scores.round()
    counts = rng.multinomial(60, np.full(60, 1 / 60), size=4)
    shuffles = np.stack([rng.permutation(60) for _ in range(4)])
    sampled = mean_average_precisions(scores, labels == 1, counts)
    shuffled = mean_average_precisions(scores, labels == 1, np.ones_like(counts), shuffles)
    for b in range(4):
        rows = np.repeat(np.arange(60), counts[b])
        assert sampled[b] == pytest.approx(ranking_metrics(scores[rows], labels[rows], CLASSES).mAP)
        assert shuffled[b] == pytest.approx(ranking_metrics(scores, labels[shuffles[b]], CLASSES).mAP)


def test_a_model_that_knows_nothing_is_rarely_called_better_than_chance_and_one_that_knows_a_little_mostly():
    blind = knowing = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        labels = labels_of(rng, 100)
        found = [compared(split_of(labels, labels), seen(rng, labels, s), None, seed) for s in (0.0, 1.0)]
        assert all(found)
        blind += found[0].beats_chance
        knowing += found[1].beats_chance
        assert (found[0].beats_teacher, found[0].teacher, found[0].gain) == (None, None, None)
    assert blind <= 6  # 5 % of 40 are expected
    assert knowing == 40


def test_chance_is_higher_than_the_share_of_positives_where_there_are_few_images():
    rng = np.random.default_rng(0)
    labels = labels_of(rng, 40)
    found = compared(split_of(labels, labels), seen(rng, labels, 0.0), None, 0)
    share = 100 * (labels == 1).mean()
    assert share + 2 < found.chance < share + 15
    assert found.chance < found.chance_at_most


@pytest.mark.parametrize(("model", "teacher", "beats"), [(2.0, 1.0, True), (1.0, 2.0, False), (1.0, 1.0, False)])
def test_a_model_beats_its_teacher_only_if_the_interval_says_so(model, teacher, beats):
    rng = np.random.default_rng(2)
    labels = labels_of(rng)
    scores = [seen(rng, labels, strength) for strength in (model, teacher)]
    found = compared(split_of(labels, labels), scores[0], scores[1], 0)
    low, high = found.gain
    assert low < found.model - found.teacher < high
    assert found.beats_teacher is beats
    assert (found.warning() is None) is beats


def test_the_same_scores_have_no_gain():
    rng = np.random.default_rng(1)
    labels = labels_of(rng)
    scores = seen(rng, labels, 1.0)
    found = compared(split_of(labels, labels), scores, scores, 0)
    assert found.gain == (0, 0)
    assert found.beats_teacher is False


def test_incomplete_labels_are_compared_as_observed_and_none_at_all_not():
    rng = np.random.default_rng(0)
    observed = np.where(labels_of(rng) == 1, 1, 0).astype(np.int8)
    assert compared(split_of(observed), seen(rng, observed, 1.0), None, 0).labels == "observed"
    assert compared(split_of(0 * observed), seen(rng, observed, 1.0), None, 0) is None


def warning(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "labels": "complete",
        "images": 80,
        "model": 60.0,
        "chance": 16.0,
        "chance_at_most": 19.0,
        "teacher": None,
    }
    return Baselines(**{**values, "gain": None, **changes}).warning()


def test_the_warnings_say_what_is_wrong_and_what_to_try():
    assert warning() is None
    assert warning(teacher=50.0, gain=(4.0, 16.0)) is None
    useless = warning(model=16.2, labels="observed")
    assert useless.startswith(
        "This model is no better than chance: validation mAP 16.2 of observed labels on 80 images, where chance gives 16.0 and "
        "up to 19.0. Do not use it."
    )
    assert "aevlp check DATA" in useless
    assert "--train.learning_rate" in useless
    unclear = warning(model=18.5)
    assert unclear.startswith("This model is not clearly better than chance: validation mAP 18.5 on 80 images")
    assert "Do not rely on it untested." in unclear
    small_but_certain = warning(model=16.9, chance_at_most=16.5)
    assert small_but_certain.startswith("This model is no better than chance")
    worse = warning(teacher=70.0, gain=(-14.0, -6.0))
    assert worse.startswith(
        "This model is worse than its teacher alone: validation mAP 60.0 on 80 images, the teacher's 70.0 (difference -10.0, "
        "90 % interval -14.0 to -6.0)."
    )
    assert "aevlp label DATA --out FILE" in worse
    assert "not clearly better than its teacher alone" in warning(teacher=59.0, gain=(-1.0, 3.0))
