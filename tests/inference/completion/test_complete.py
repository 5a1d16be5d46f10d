"""Completion of labels from predictors' scores, which are drawn here from a known truth."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aevlp.config.config import build_config
from aevlp.core.errors import UserError
from aevlp.data.annotations import Annotations, Answer
from aevlp.data.dataset import Dataset, Split
from aevlp.inference.completion import complete as module
from aevlp.inference.completion.claims import FEWER, MORE, MeasuredClaim
from aevlp.inference.completion.complete import FEW, FEWEST_CANDIDATES, NOTHING_KNOWN, LabelTask, complete
from aevlp.inference.options import LabelOptions
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import Thresholds
from tests.inference.completion.test_fusion import TWO, Drawn, drawn, precision_of

NAMES = tuple(f"class {number}" for number in range(100))


def split(name: str, observed: np.ndarray, truth: np.ndarray | None = None) -> Split:
    images = tuple(f"{name}/{number}.png" for number in range(len(observed)))
    return Split(name, Path("photos"), images, np.array(images, "S16"), observed.astype(np.int8), truth)


def dataset(train: np.ndarray, val: np.ndarray, *, is_complete: bool = True, test: np.ndarray | None = None) -> Dataset:
    return Dataset(
        classes=NAMES[: train.shape[1]],
        train=split("train", train),
        val=split("val", val, val if is_complete else None),
        test=None if test is None else split("test", test, test),
        place=Path("photos"),
    )


def completed(data: Dataset, on_train: dict, on_val: dict, *, values=(), folds: int | None = 2, is_scored=True, **options):
    """The data set, completed from scores of its training and its validation images."""
    task = LabelTask(
        config=build_config("test", "aevlp", dict(values)),
        data=data,
        run=RunFolder(Path("run")) if "model" in on_val else None,
        knows_labels="model" in on_val and folds is None,
        uses_teacher="teacher" in on_val,
        options=LabelOptions(folds=folds if "model" in on_val else None, **options),
        out=Path("completed.csv"),
    )

    def scores(*_):
        assert is_scored, "scores were computed in vain"
        return {"train": on_train, "val": on_val}

    def read_thresholds(_, classes):
        return Thresholds("f1", None, "complete", "val", 8, 2.0, 0.5, dict.fromkeys(classes, 0.5), None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_scores", scores)
        patch.setattr(module, "read_thresholds", read_thresholds)
        return complete(task, None)


@pytest.fixture(scope="module")
def train() -> Drawn:
    return drawn(800, TWO, seed=0)


@pytest.fixture(scope="module")
def val() -> Drawn:
    return drawn(800, TWO, seed=1)


def test_complete_validation_labels_tell_what_the_proposals_are_worth(train, val):
    done = completed(dataset(train.observed, val.truth, test=val.truth[:3]), train.scores, val.scores)
    assert set(done.proposals) == {"train"}
    found, claim = done.proposals["train"], done.claim
    assert claim.images == 800
    for figure, true in (
        (claim.precision, precision_of(found.proposed, train)),
        (claim.recall, (found.proposed & train.hidden).sum() / train.hidden.sum()),
    ):
        assert figure.value == pytest.approx(true, abs=0.04)
        assert figure.low <= true <= figure.high
    assert f"{found.proposed.sum()} new labels: {claim}" in done.summary()
    absent = 1 - precision_of(found.denied, train)
    lost = (found.denied & train.hidden).sum() / train.hidden.sum()
    assert done.absences.precision.low <= absent <= done.absences.precision.high
    assert done.absences.lost.low <= lost <= done.absences.lost.high
    assert 0 < lost < 0.07
    assert f"{found.denied.sum()} labels proposed to be absent: precision {done.absences.precision}; share" in done.summary()
    records = list(done)
    assert [record.split for record in records] == ["train"] * 800 + ["val"] * 800 + ["test"] * 3
    for record, labels in zip(records[800:], [*val.truth, *val.truth[:3]], strict=True):  # known completely: left alone
        assert record.observed == tuple(name for name, label in zip(NAMES, labels, strict=False) if label == 1)
        assert record.rejected == tuple(name for name, label in zip(NAMES, labels, strict=False) if label == -1)
        assert not record.proposed
        assert not record.proposed_absent
        assert not record.doubted


def test_incomplete_validation_images_are_completed_too(train, val):
    done = completed(dataset(train.observed, val.observed, is_complete=False), train.scores, val.scores)
    assert "unverified" in str(done.claim)
    for name, images in (("train", train), ("val", val)):
        assert precision_of(done.proposals[name].proposed, images) > done.claim.low
        assert done.proposals[name].proposed.any(1).mean() > 0.3
        denied = done.proposals[name].denied
        assert denied.sum() > 0.3 * (images.unknown & ~images.hidden).sum()
        assert (denied & images.hidden).sum() < 0.07 * images.hidden.sum()
    assert 0 < done.absences.lost <= 0.05
    assert (
        f"{sum(found.denied.sum() for found in done.proposals.values())} labels proposed to be absent: unverified"
        in done.summary()
    )


def test_answers_show_how_often_a_score_is_right(train, val):
    """A review has answered the likeliest unknown labels: what it left is neither sure nor impossible."""
    likely = np.mean(list(train.scores.values()), axis=0)
    answered = train.unknown & (likely >= np.quantile(likely[train.unknown], 0.8))
    observed = np.where(answered, train.truth, train.observed)
    rest = observed == 0
    true = int((rest & (train.truth == 1)).sum())
    assert true > 30
    data = dataset(observed, val.observed, is_complete=False)
    answers = {(int(row), int(column)): Answer("ann") for row, column in zip(*np.nonzero(answered), strict=True)}
    told = replace(data, train=replace(data.train, annotations=Annotations(answers=answers)))
    before, after = (completed(each, train.scores, val.scores).proposals["train"].confidence[rest] for each in (data, told))
    assert 0.6 < after.sum() / true < 1.7
    assert abs(np.log(before.sum() / true)) > abs(np.log(after.sum() / true))
    few = replace(data, train=replace(data.train, annotations=Annotations(answers=dict(list(answers.items())[:20]))))
    # So few answers are not fitted to: the given labels are.
    assert np.abs(completed(few, train.scores, val.scores).proposals["train"].confidence[rest] - before).mean() < 0.01


def test_accepted_labels_do_not_count_as_given_ones(train, val):
    """They were chosen by their scores, and are found: what is left to find is estimated from the given labels."""
    likely = np.mean(list(train.scores.values()), axis=0)
    surest = np.argsort(-np.where(train.unknown & (train.truth == 1), likely, -1).ravel())[: FEW - 10]
    answered = np.zeros(train.truth.size, bool)
    answered[surest] = True
    answered = answered.reshape(train.truth.shape)
    observed = np.where(answered, np.int8(1), train.observed)
    data = dataset(observed, val.observed, is_complete=False)
    answers = {(int(row), int(column)): Answer("ann") for row, column in zip(*np.nonzero(answered), strict=True)}
    told = replace(data, train=replace(data.train, annotations=Annotations(answers=answers)))
    rest = observed == 0
    given, accepted = (completed(each, train.scores, val.scores).proposals["train"].confidence[rest] for each in (data, told))
    true = int((rest & (train.truth == 1)).sum())
    assert abs(accepted.sum() - true) < abs(given.sum() - true)


def test_the_likeliest_labels_of_each_image_are_candidates(train, val):
    done = completed(dataset(train.observed, val.observed, is_complete=False), train.scores, val.scores)
    found = done.proposals["train"]
    open_cells = train.unknown & ~found.proposed & ~found.denied
    assert not (found.candidates & ~open_cells).any()
    assert (found.candidates.sum(1) >= np.minimum(open_cells.sum(1), FEWEST_CANDIDATES)).all()
    least = np.where(found.candidates, found.confidence, np.inf).min(1)
    assert (np.where(open_cells & ~found.candidates, found.confidence, -np.inf).max(1) <= least).all()


def test_predictors_that_find_nothing_say_nothing_about_absences():
    train, val = (drawn(300, {"teacher": 0.0}, seed=seed) for seed in (20, 21))
    done = completed(dataset(train.observed, val.observed, is_complete=False), train.scores, val.scores)
    assert done.counts.proposed == done.counts.denied == 0


def test_expected_positives_are_what_the_user_says_they_are(train, val):
    data = dataset(train.observed, val.observed, is_complete=False)
    claims = [completed(data, train.scores, val.scores, values={"train.expected_positives": n}).claim for n in (1.5, 2.5)]
    own = completed(data, train.scores, val.scores).claim
    for claim, to_find in zip(claims, (0.5, 1.5), strict=True):
        assert claim.most == pytest.approx(1 + to_find * MORE)
        assert claim.fewest == pytest.approx(min(own.fewest, 1 + to_find * FEWER))  # no more than the predictors find themselves


@pytest.mark.parametrize("is_complete", [True, False])
def test_nothing_is_measured_on_images_whose_labels_the_model_knows(train, val, is_complete):
    """On its training images it repeats the labels that it was trained on: by those, it would seem to know all."""
    memorised = {"model": np.where(train.observed == 1, 0.999, 0.001).astype(np.float32)}
    data = dataset(train.observed, val.truth if is_complete else val.observed, is_complete=is_complete)
    done = completed(data, memorised, {"model": val.scores["model"]}, folds=None)
    assert not isinstance(done.claim, MeasuredClaim)
    assert isinstance(completed(dataset(train.observed, val.truth), train.scores, val.scores, folds=2).claim, MeasuredClaim)


def test_out_of_fold_scores_of_all_images_are_fitted_on(train):
    """A handful of validation images would say little."""
    few = drawn(6, TWO, seed=2)
    done = completed(dataset(train.observed, few.observed, is_complete=False), train.scores, few.scores, folds=2)
    assert done.proposals["train"].proposed.sum() > 200


def test_images_that_are_fully_labelled_do_not_pass_for_incomplete_ones(val):
    """Half of the training images have all their labels. What there is to find is in the others."""
    train = drawn(1200, TWO, seed=3)
    observed = train.observed.copy()
    observed[::2] = train.truth[::2]
    done = completed(dataset(observed, val.truth), train.scores, val.scores)
    found = done.proposals["train"].proposed
    assert not found[::2].any()
    true = (found & train.hidden).sum() / found.sum()
    assert done.claim.precision.low <= true <= done.claim.precision.high


@pytest.mark.parametrize("is_complete", [True, False])
def test_where_everything_is_observed_nothing_is_proposed(train, val, is_complete):
    data = dataset(train.truth, val.truth if is_complete else val.observed, is_complete=is_complete)
    found = completed(data, train.scores, val.scores).proposals["train"]
    assert not found.proposed.any()
    assert not found.denied.any()


def test_a_precision_out_of_reach_proposes_nothing(train, val):
    constant = {"teacher": np.full(train.truth.shape, 0.5, np.float32)}
    done = completed(dataset(train.observed, val.truth), constant, {"teacher": constant["teacher"]}, min_precision=0.9)
    assert not done.proposals["train"].proposed.any()
    assert done.claim.startswith(
        "no new label is proposed: with 800 fully labelled images, no least confidence keeps a precision of 90 %"
    )


def test_a_least_confidence(train, val):
    for is_complete in (True, False):
        data = dataset(train.observed, val.truth if is_complete else val.observed, is_complete=is_complete)
        found = completed(data, train.scores, val.scores, min_confidence=0.7).proposals["train"]
        assert np.array_equal(found.proposed, (train.observed == 0) & (found.confidence >= 0.7))


def test_wrong_labels_are_doubted_if_both_predictors_doubt_them():
    strong = {"teacher": 3.0, "model": 3.0}
    train, val = drawn(1000, strong, seed=4), drawn(1000, strong, seed=5)
    rng, observed = np.random.default_rng(0), train.observed.copy()
    wrong = np.zeros(observed.shape, bool)
    for row in range(0, 1000, 20):
        column = rng.choice(np.flatnonzero(train.truth[row] == -1))
        observed[row, column], wrong[row, column] = 1, True
    data = dataset(observed, val.truth)
    doubted = completed(data, train.scores, val.scores).proposals["train"].doubted
    assert doubted[wrong].mean() > 0.5
    assert doubted[(observed == 1) & ~wrong].mean() < 0.01
    assert not doubted[observed != 1].any()

    agreeing = {**train.scores, "teacher": np.where(wrong, np.float32(0.999), train.scores["teacher"])}
    assert not completed(data, agreeing, val.scores).proposals["train"].doubted[wrong].any()
    for name in strong:  # one predictor alone does not outweigh an observed label
        one, other = {name: train.scores[name]}, {name: val.scores[name]}
        assert not completed(data, one, other).proposals["train"].doubted.any()


cells = st.sampled_from([1, 0, 0, 0, -1])
scores = st.floats(0, 1, width=32)


@st.composite
def tables(draw):
    """Labels and scores of a few images: (train, val, each predictor's scores of both)."""
    classes = draw(st.integers(1, 4))

    def table(of, rows, kind):
        flat = draw(st.lists(of, min_size=rows * classes, max_size=rows * classes))
        return np.array(flat, kind).reshape(rows, classes)

    sizes = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    predictors = draw(st.sampled_from([("teacher",), ("model",), ("teacher", "model")]))
    train, val = table(cells, sizes[0], np.int8), table(cells, sizes[1], np.int8)
    return train, val, *({name: table(scores, rows, np.float32) for name in predictors} for rows in sizes)


@settings(max_examples=40, deadline=None)
@given(tables=tables(), is_complete=st.booleans(), knows_labels=st.booleans(), min_precision=st.sampled_from([None, 0.5, 1.0]))
def test_what_was_given_stays_as_it_was(tables, is_complete, knows_labels, min_precision):
    train, val, on_train, on_val = tables
    if is_complete:
        val = np.where(val == 1, np.int8(1), np.int8(-1))
    data = dataset(train, val, is_complete=is_complete)
    try:
        done = completed(data, on_train, on_val, folds=None if knows_labels else 2, min_precision=min_precision)
    except UserError:  # there is nothing to fit to
        return
    records = list(done)
    assert [record.name for record in records] == [*data.train.names, *data.val.names]
    for record, labels in zip(records, [*train, *val], strict=True):
        given = {name for name, label in zip(NAMES, labels, strict=False) if label == 1}
        absent = {name for name, label in zip(NAMES, labels, strict=False) if label == -1}
        assert set(record.observed) == given
        assert set(record.rejected) == absent
        assert not set(record.proposed) & (given | absent)
        assert not set(record.proposed_absent) & (given | absent | set(record.proposed))
        assert set(record.doubted) <= given
        assert len(on_val) == 2 or not record.doubted
        for scores, surest in ((record.proposed, -1), (record.proposed_absent, 1), (record.doubted, 1)):
            confidences = [surest * score.confidence for score in scores.values()]
            assert confidences == sorted(confidences)
            assert all(0 <= score.confidence <= 1 for score in scores.values())
            assert all(set(score.predictors) == set(on_val) for score in scores.values())


def test_without_labels_the_teacher_proposes_by_its_own_rule():
    nothing = np.zeros((3, 5), np.int8)
    scores = np.array([[0.9, 0.7, 0.6, 0.5, 0.1], [0.2, 0.3, 0.9, 0.1, 0.0], [0.4, 0.3, 0.2, 0.1, 0.45]], np.float32)
    values = {"damp.top_k": 2, "damp.global_threshold": 0.5}
    on_val = {"teacher": scores[:1]}
    done = completed(dataset(nothing, nothing[:1], is_complete=False), {"teacher": scores}, on_val, values=values)
    assert done.claim == NOTHING_KNOWN.format(rule="DAMP's rule")
    assert [set(record.proposed) for record in done] == [{NAMES[0], NAMES[1]}, {NAMES[2]}, set(), {NAMES[0], NAMES[1]}]
    assert not any(record.proposed_absent for record in done)  # nothing says what that would cost


def test_without_labels_a_model_proposes_by_its_thresholds():
    nothing = np.zeros((2, 3), np.int8)
    scores = np.array([[0.9, 0.3, 0.001], [0.5, 0.49, 0.02]], np.float32)
    done = completed(dataset(nothing, nothing, is_complete=False), {"model": scores}, {"model": scores}, folds=None)
    assert done.claim == NOTHING_KNOWN.format(rule="the thresholds of the run")
    assert [set(record.proposed) for record in done] == 2 * [{NAMES[0]}, {NAMES[0]}]
    assert not any(record.proposed_absent for record in done)


def test_what_takes_labels_is_refused_before_scores_are_computed():
    nothing, scores = np.zeros((4, 3), np.int8), np.full((4, 3), 0.5, np.float32)
    data = dataset(nothing, nothing, is_complete=False)
    with pytest.raises(UserError, match="--min-precision: photos has no fully labelled images to measure a precision on; label"):
        completed(data, {"teacher": scores}, {"teacher": scores}, min_precision=0.9, is_scored=False)
    with pytest.raises(UserError, match=r"--min-confidence 0.5: .* and without any label there is none; choose a lower one"):
        completed(data, {"teacher": scores}, {"teacher": scores}, min_confidence=0.5, is_scored=False)
    known = dataset(np.eye(4, 3, dtype=np.int8), np.eye(4, 3, dtype=np.int8), is_complete=False)
    with pytest.raises(UserError, match=r"--min-confidence 0.97: without fully labelled images no confidence is above 0.95"):
        completed(known, {"teacher": scores}, {"teacher": scores}, min_confidence=0.97, is_scored=False)
    full = dataset(nothing + 1, nothing + 1)
    with pytest.raises(UserError, match="--min-precision: the model was trained on these images, so that its precision on them"):
        completed(full, {"model": scores}, {"model": scores}, min_precision=0.9, folds=None, is_scored=False)
    both = {"teacher": scores, "model": scores}
    with pytest.raises(UserError, match="photos has no label to weight two predictors by; choose one with --witness"):
        completed(data, both, both, is_scored=False)


@pytest.mark.parametrize("is_complete", [True, False])
def test_few_labels_are_said_to_be_few(caplog, is_complete):
    few, enough = drawn(20, TWO, seed=6), drawn(200, TWO, seed=7)
    for images, is_warned in ((few, True), (enough, False)):
        caplog.clear()
        data = dataset(images.observed, images.truth if is_complete else images.observed, is_complete=is_complete)
        with caplog.at_level(logging.WARNING, "aevlp"):
            completed(data, images.scores, images.scores)
        assert any("little more than a guess" in message for message in caplog.messages) == is_warned


def test_more_images_than_are_needed_are_not_all_fitted_on(monkeypatch, train, val):
    monkeypatch.setattr(module, "FITTED_ON", 400)
    done = completed(dataset(train.observed, val.truth), train.scores, val.scores)
    assert done.claim.images == 400
    assert done.claim.precision.low <= precision_of(done.proposals["train"].proposed, train) <= done.claim.precision.high
