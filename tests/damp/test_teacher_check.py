"""The first look at the teacher: which images, the figures beside chance, and what is warned of."""

from typing import Any

import numpy as np
import pytest

from aevlp.damp.teacher_check import TeacherCheck, check_teacher, checked_rows

CLASSES = list("abcdefgh")


def tagged(rng, images: int, shares=None) -> np.ndarray:
    """One observed label per image."""
    observed = np.zeros((images, len(CLASSES)), np.int8)
    observed[np.arange(images), rng.choice(len(CLASSES), images, p=shares)] = 1
    return observed


def scores_of(rng, observed, strength: float) -> np.ndarray:
    logits = rng.standard_normal(observed.shape) + strength * (observed == 1)
    return np.exp(3 * logits) / np.exp(3 * logits).sum(1, keepdims=True)


def test_classes_take_turns_and_unlabelled_images_are_left_out(monkeypatch):
    observed = np.zeros((1000, 3), np.int8)
    observed[:900, 0], observed[900:920, 1], observed[920:940, 2], observed[940, 0] = 1, 1, 1, -1
    assert len(checked_rows(observed)) == 300
    monkeypatch.setattr("aevlp.damp.teacher_check.MOST_CHECKED", 90)
    rows = checked_rows(observed)
    assert (observed[rows] == 1).sum(0).tolist() == [50, 20, 20]
    assert (np.diff(rows) > 0).all()
    assert np.array_equal(rows, checked_rows(observed))
    assert len(checked_rows(observed[940:])) == 0
    monkeypatch.setattr("aevlp.damp.teacher_check.MOST_CHECKED", 30)
    assert (observed[checked_rows(observed)] == 1).sum(0).tolist() == [10, 10, 10]


def test_a_sure_teacher_is_warned_of_only_if_it_is_mostly_wrong():
    for first, warned in ((0.4, True), (0.6, False)):
        said = TeacherCheck(300, first, 0.12, 0.15, 8, (), 0.99).warnings()
        assert any("surer than it should be" in line for line in said) is warned


def test_a_teacher_that_knows_nothing_is_called_useless_and_one_that_knows_a_little_is_not():
    blind = knowing = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        observed = tagged(rng, 300)
        blind += not check_teacher(scores_of(rng, observed, 0.0), observed, CLASSES).is_useless
        knowing += not check_teacher(scores_of(rng, observed, 1.0), observed, CLASSES).is_useless
    assert blind <= 6  # 5 % of 40 are expected
    assert knowing == 40


@pytest.mark.parametrize(("chance", "least"), [(0.2, 0.22), (0.9, 0.91)])
def test_the_least_gain_is_a_share_of_chance_or_of_what_is_missing_to_certainty(chance, least):
    for first, is_useless in ((least - 0.001, True), (least + 0.001, False)):
        found = TeacherCheck(300, first, chance, chance, 8, (), 0.5)
        assert found.is_useless is is_useless


def test_chance_is_that_of_the_same_answers_for_other_images():
    rng = np.random.default_rng(0)
    observed = tagged(rng, 300, [0.65, *[0.05] * 7])
    always_the_first = np.tile(np.linspace(1, 0, len(CLASSES)), (300, 1))
    found = check_teacher(always_the_first, observed, CLASSES)
    assert found.first == pytest.approx(found.chance)
    assert found.first == (observed[:, 0] == 1).mean()
    assert found.is_useless
    both = observed.copy()
    both[:, 1] = 1  # with two tags, either may be the first
    assert check_teacher(scores_of(rng, both, 0.0), both, CLASSES).chance > 0.15


def test_only_a_class_that_is_hardly_told_from_others_is_unseen():
    false = missed = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        observed = tagged(rng, 300)
        scores = scores_of(rng, observed, 1.0)
        scores[:, 2] = rng.random(300) / 8
        unseen = check_teacher(scores, observed, CLASSES).unseen
        false += len(set(unseen) - {"c"})
        missed += "c" not in unseen
    assert false == 0
    assert missed <= 4
    few = tagged(np.random.default_rng(0), 24)
    assert check_teacher(np.random.default_rng(1).random(few.shape), few, CLASSES).unseen == ()  # too few to tell


def warnings(**changes: Any) -> list[str]:
    values: dict[str, Any] = {"images": 300, "first": 0.41, "chance": 0.12, "chance_at_most": 0.15, "classes": 8, "unseen": ()}
    return TeacherCheck(**{**values, "confidence": 0.6, **changes}).warnings()


def test_the_warnings_name_the_likely_cause():
    assert warnings() == []
    (useless,) = warnings(first=0.13, unseen=("a", "b"))
    figures = "it ranks the tag first in 13 % of 300 images, where chance gives 12 % and up to 15 %."
    assert useless.startswith(f"The teacher does not know these classes: {figures}")
    assert "--prompts FILE" in useless
    (unseen,) = warnings(unseen=("a", "b"))
    assert unseen.startswith("The teacher does not see 2 of 8 classes: a, b. It scores their images above others less than 65 %")
    (flat,) = warnings(confidence=0.14)
    assert "temperature is likely too high" in flat
    (sure,) = warnings(confidence=0.99)
    assert "temperature is likely too low" in sure
    text = str(TeacherCheck(300, 0.41, 0.12, 0.15, 8, ("a",), 0.6))
    assert text == "it ranks the tag first in 41 % of 300 images; chance 12 %; classes that it does not see: a"
    none, many = (str(TeacherCheck(300, 0.41, 0.12, 0.15, 20, unseen, 0.6)) for unseen in ((), tuple("abcdefghijklm")))
    assert none == "it ranks the tag first in 41 % of 300 images; chance 12 %"
    assert many.endswith("classes that it does not see: a, b, c, d, e, f, g, h, i, j, ...")
