"""Completing labels by what witnesses say; what they say is made up here, and drawn from a truth that is known."""

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aevlp.config.config import build_config
from aevlp.core.errors import UserError
from aevlp.data.dataset import Dataset, Split
from aevlp.inference.completion import complete as module
from aevlp.inference.completion.complete import Request, complete
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds
from tests.inference.completion.test_weighing import TWO, Drawn, drawn, precision_of

NAMES = tuple(f"class {number}" for number in range(100))


def split(name: str, observed: np.ndarray, truth: np.ndarray | None = None) -> Split:
    images = tuple(f"{name}/{number}.png" for number in range(len(observed)))
    return Split(name, Path("photos"), images, images, observed.astype(np.int8), truth)


def dataset(train: np.ndarray, val: np.ndarray, *, is_complete: bool = True, test: np.ndarray | None = None) -> Dataset:
    return Dataset(
        classes=NAMES[: train.shape[1]],
        train=split("train", train),
        val=split("val", val, val if is_complete else None),
        test=None if test is None else split("test", test, test),
    )


def completed(data: Dataset, on_train: dict, on_val: dict, *, values=(), folds: int | None = 2, is_asked=True, **wishes):
    """The data set, completed by what witnesses say of its training and its validation images."""
    request = Request(
        config=build_config("test", "aevlp", dict(values)),
        data=data,
        run=RunFolder(Path("run")) if "model" in on_val else None,
        folds=folds if "model" in on_val else None,
        asks_teacher="teacher" in on_val,
        root=None,
        **{"min_precision": None, "min_negative_precision": 0.99, **wishes},
    )

    def said(*_):
        assert is_asked, "the witnesses were asked in vain"
        return {"train": on_train, "val": on_val}

    def read_thresholds(_, classes):
        return Thresholds("f1", None, "complete", "val", 8, 2.0, 0.5, dict.fromkeys(classes, 0.5), None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_said", said)
        patch.setattr("aevlp.training.thresholds.read_thresholds", read_thresholds)
        return complete(request, None)


@pytest.fixture(scope="module")
def train() -> Drawn:
    return drawn(800, TWO, seed=0)


@pytest.fixture(scope="module")
def val() -> Drawn:
    return drawn(800, TWO, seed=1)


def test_complete_validation_labels_tell_what_the_proposals_are_worth(train, val):
    done = completed(dataset(train.observed, val.truth, test=val.truth[:3]), train.said, val.said)
    assert set(done.verdicts) == {"train"}
    verdict, weighing = done.verdicts["train"], done.weighing
    assert weighing.basis == "complete"
    assert weighing.precision == pytest.approx(precision_of(verdict.proposed, train), abs=0.03)
    assert weighing.recall == pytest.approx((verdict.proposed & train.hidden).sum() / train.hidden.sum(), abs=0.03)
    assert (verdict.denied & train.hidden).sum() / verdict.denied.sum() == pytest.approx(0.01, abs=0.005)
    records = list(done.records())
    assert [record.split for record in records] == ["train"] * 800 + ["val"] * 800 + ["test"] * 3
    for record, labels in zip(records[800:], [*val.truth, *val.truth[:3]], strict=True):  # known completely: left alone
        assert record.observed == tuple(name for name, label in zip(NAMES, labels, strict=False) if label == 1)
        assert record.absent == tuple(name for name, label in zip(NAMES, labels, strict=False) if label == -1)
        assert not record.proposed
        assert not record.proposed_absent
        assert not record.doubted


def test_incomplete_validation_images_are_completed_too(train, val):
    done = completed(dataset(train.observed, val.observed, is_complete=False), train.said, val.said)
    assert done.weighing.basis == "estimated"
    for name, images in (("train", train), ("val", val)):
        assert precision_of(done.verdicts[name].proposed, images) == pytest.approx(done.weighing.precision, abs=0.2)
        assert done.verdicts[name].proposed.any(1).mean() > 0.3


def test_expected_positives_are_what_the_user_says_they_are(train, val):
    data = dataset(train.observed, val.observed, is_complete=False)
    true = (np.concatenate([train.truth, val.truth]) == 1).sum(1).mean()
    done = completed(data, train.said, val.said, values={"train.expected_positives": true})
    found = np.concatenate([done.verdicts[name].proposed for name in ("train", "val")])
    hidden = np.concatenate([train.hidden, val.hidden])
    assert done.weighing.to_find == pytest.approx(hidden.sum(), rel=0.01)
    assert done.weighing.precision == pytest.approx((found & hidden).sum() / found.sum(), abs=0.05)


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_model_that_was_told_the_labels_is_weighed_where_it_was_not(train, val, is_complete):
    """On its training images it says what it was told, and nothing else: by those, it would seem to know all."""
    told = {"model": np.where(train.observed == 1, 0.999, 0.001).astype(np.float32)}
    data = dataset(train.observed, val.truth if is_complete else val.observed, is_complete=is_complete)
    done = completed(data, told, {"model": val.said["model"]}, folds=None)
    alone = completed(
        dataset(val.observed[:5], data.val.observed, is_complete=is_complete),
        {"model": val.said["model"][:5]},
        {"model": val.said["model"]},
        folds=None,
    )
    assert done.weighing.alone["model"].slopes[0] == pytest.approx(alone.weighing.alone["model"].slopes[0], rel=0.1)
    assert done.weighing.precision == pytest.approx(alone.weighing.precision, abs=0.05)
    assert not done.verdicts["train"].proposed.any()


def test_out_of_fold_opinions_count_on_all_images(train):
    """A handful of validation images would say little."""
    few = drawn(6, TWO, seed=2)
    done = completed(dataset(train.observed, few.observed, is_complete=False), train.said, few.said, folds=2)
    assert done.weighing.to_find > 400


def test_images_that_are_fully_labelled_do_not_pass_for_incomplete_ones(val):
    """Half of the training images have all their labels. What there is to find is in the others."""
    train = drawn(1200, TWO, seed=3)
    observed = train.observed.copy()
    observed[::2] = train.truth[::2]
    done = completed(dataset(observed, val.truth), train.said, val.said)
    found = done.verdicts["train"].proposed
    assert not found[::2].any()
    assert (found & train.hidden).sum() / found.sum() == pytest.approx(done.weighing.precision, abs=0.03)


@pytest.mark.parametrize("is_complete", [True, False])
def test_where_everything_is_observed_nothing_is_proposed(train, val, is_complete):
    data = dataset(train.truth, val.truth if is_complete else val.observed, is_complete=is_complete)
    verdict = completed(data, train.said, val.said).verdicts["train"]
    assert not verdict.proposed.any()
    assert not verdict.denied.any()


def test_a_precision_out_of_reach_proposes_nothing(train, val):
    nobody = {"teacher": np.full(train.truth.shape, 0.5, np.float32)}
    done = completed(dataset(train.observed, val.truth), nobody, {"teacher": nobody["teacher"]}, min_precision=0.9)
    assert not done.verdicts["train"].proposed.any()


def test_wrong_labels_are_doubted_if_both_witnesses_speak_against_them():
    strong = {"teacher": 3.0, "model": 3.0}
    train, val = drawn(1000, strong, seed=4), drawn(1000, strong, seed=5)
    rng, observed = np.random.default_rng(0), train.observed.copy()
    wrong = np.zeros(observed.shape, bool)
    for row in range(0, 1000, 20):
        column = rng.choice(np.flatnonzero(train.truth[row] == -1))
        observed[row, column], wrong[row, column] = 1, True
    data = dataset(observed, val.truth)
    doubted = completed(data, train.said, val.said).verdicts["train"].doubted
    assert doubted[wrong].mean() > 0.5
    assert doubted[(observed == 1) & ~wrong].mean() < 0.01
    assert not doubted[observed != 1].any()

    agreeing = {**train.said, "teacher": np.where(wrong, np.float32(0.999), train.said["teacher"])}
    assert not completed(data, agreeing, val.said).verdicts["train"].doubted[wrong].any()
    for name in strong:  # one witness against an observed label is not enough
        one, other = {name: train.said[name]}, {name: val.said[name]}
        assert not completed(data, one, other).verdicts["train"].doubted.any()


cells = st.sampled_from([1, 0, 0, 0, -1])
scores = st.floats(0, 1, width=32)


@st.composite
def tables(draw):
    """Labels and scores of a few images: (train, val, what each witness says of both)."""
    classes = draw(st.integers(1, 4))

    def table(of, rows, kind):
        flat = draw(st.lists(of, min_size=rows * classes, max_size=rows * classes))
        return np.array(flat, kind).reshape(rows, classes)

    sizes = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    witnesses = draw(st.sampled_from([("teacher",), ("model",), ("teacher", "model")]))
    train, val = table(cells, sizes[0], np.int8), table(cells, sizes[1], np.int8)
    return train, val, *({name: table(scores, rows, np.float32) for name in witnesses} for rows in sizes)


@settings(max_examples=40, deadline=None)
@given(tables=tables(), is_complete=st.booleans(), is_told=st.booleans(), min_precision=st.sampled_from([None, 0.5, 1.0]))
def test_what_was_given_stays_as_it_was(tables, is_complete, is_told, min_precision):
    train, val, on_train, on_val = tables
    if is_complete:
        val = np.where(val == 1, np.int8(1), np.int8(-1))
    data = dataset(train, val, is_complete=is_complete)
    try:
        done = completed(data, on_train, on_val, folds=None if is_told else 2, min_precision=min_precision)
    except UserError:  # there is nothing to weigh by
        return
    records = list(done.records())
    assert [record.name for record in records] == [*data.train.names, *data.val.names]
    for record, labels in zip(records, [*train, *val], strict=True):
        given = {name for name, label in zip(NAMES, labels, strict=False) if label == 1}
        absent = {name for name, label in zip(NAMES, labels, strict=False) if label == -1}
        assert set(record.observed) == given
        assert set(record.absent) == absent
        assert not set(record.proposed) & (given | absent)
        assert not set(record.proposed_absent) & (given | absent | set(record.proposed))
        assert set(record.doubted) <= given
        assert len(on_val) == 2 or not record.doubted
        for opinions, surest in ((record.proposed, -1), (record.proposed_absent, 1), (record.doubted, 1)):
            confidences = [surest * opinion.confidence for opinion in opinions.values()]
            assert confidences == sorted(confidences)
            assert all(0 <= opinion.confidence <= 1 for opinion in opinions.values())
            assert all(set(opinion.witnesses) == set(on_val) for opinion in opinions.values())


def test_without_labels_the_teacher_proposes_by_its_own_rule():
    nothing = np.zeros((3, 5), np.int8)
    scores = np.array([[0.9, 0.7, 0.6, 0.5, 0.1], [0.2, 0.3, 0.9, 0.1, 0.0], [0.4, 0.3, 0.2, 0.1, 0.45]], np.float32)
    values = {"damp.top_k": 2, "damp.global_threshold": 0.5, "damp.negative_fraction": 0.4}
    on_val = {"teacher": scores[:1]}
    done = completed(dataset(nothing, nothing[:1], is_complete=False), {"teacher": scores}, on_val, values=values)
    assert done.weighing is None
    assert [set(record.proposed) for record in done.records()] == [{NAMES[0], NAMES[1]}, {NAMES[2]}, set(), {NAMES[0], NAMES[1]}]
    absent = [set(record.proposed_absent) for record in done.records()]
    assert absent == [{NAMES[3], NAMES[4]}, {NAMES[3], NAMES[4]}, {NAMES[2], NAMES[3]}, {NAMES[3], NAMES[4]}]


def test_without_labels_a_model_proposes_by_its_thresholds():
    nothing = np.zeros((2, 3), np.int8)
    scores = np.array([[0.9, 0.3, 0.001], [0.5, 0.49, 0.02]], np.float32)
    done = completed(dataset(nothing, nothing, is_complete=False), {"model": scores}, {"model": scores}, folds=None)
    assert done.weighing is None
    assert [set(record.proposed) for record in done.records()] == 2 * [{NAMES[0]}, {NAMES[0]}]
    assert [set(record.proposed_absent) for record in done.records()] == 2 * [{NAMES[2]}, set()]


def test_what_takes_labels_is_refused_before_anybody_is_asked():
    nothing, scores = np.zeros((4, 3), np.int8), np.full((4, 3), 0.5, np.float32)
    data = dataset(nothing, nothing, is_complete=False)
    with pytest.raises(UserError, match="--min-precision: photos has no label to measure a precision by; leave it out"):
        completed(data, {"teacher": scores}, {"teacher": scores}, min_precision=0.9, is_asked=False)
    both = {"teacher": scores, "model": scores}
    with pytest.raises(UserError, match="photos has no label to weigh two witnesses by; choose one with --witness"):
        completed(data, both, both, is_asked=False)


@pytest.mark.parametrize("is_complete", [True, False])
def test_few_labels_are_said_to_be_few(caplog, is_complete):
    few, enough = drawn(20, TWO, seed=6), drawn(200, TWO, seed=7)
    for images, is_warned in ((few, True), (enough, False)):
        caplog.clear()
        data = dataset(images.observed, images.truth if is_complete else images.observed, is_complete=is_complete)
        with caplog.at_level(logging.WARNING, "aevlp"):
            completed(data, images.said, images.said)
        assert any("little more than a guess" in message for message in caplog.messages) == is_warned


def test_more_images_than_are_needed_are_not_all_weighed_on(monkeypatch, train, val):
    monkeypatch.setattr(module, "JUDGED", 400)
    done = completed(dataset(train.observed, val.truth), train.said, val.said)
    assert done.weighing.to_find == pytest.approx(0.5 * val.hidden.sum(), rel=0.1)
    assert precision_of(done.verdicts["train"].proposed, train) == pytest.approx(done.weighing.precision, abs=0.05)
