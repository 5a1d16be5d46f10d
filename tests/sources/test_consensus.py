"""The consensus source: opinions without an image's own tag, their weights, and the soft labels."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from sklearn.metrics import roc_auc_score

from aevlp.config.config import build_config
from aevlp.core.seeds import generator_for
from aevlp.damp.agreement import TagRegression, opinion
from aevlp.data import prepare, read
from aevlp.data.annotations import Annotations, Answer
from aevlp.sources import EpochContext
from aevlp.sources.consensus import Consensus
from tests.colours import write_world
from tests.sources.tasks import through_a_file, unexpected

SMALL = {"teacher.name": "tests.colours:teacher", "damp.temperature": 0.1, "train.epochs": 3}
EXPECTED = 1.6


@pytest.fixture
def make(world, tmp_path):
    def source(change=lambda split: split, folder=world, **values):
        data = prepare(read(folder), observe="single")
        config = build_config("test", "consensus", {**SMALL, **values})
        made = Consensus(
            config.source_context(change(data.train), data.classes, tmp_path / "views", Accelerator(cpu=True)), config.source
        )
        made.fill()
        return made

    return source


def told(source, features):
    """The soft labels of the first epoch, with these features [N, D] of the backbone."""
    source.begin_epoch(EpochContext(1, 3, EXPECTED, probabilities=unexpected, features=lambda: features))
    return source.rows(torch.arange(len(features)), torch.zeros(1))


def some_features(source, seed=0):
    return torch.randn(len(source.observed), 6, generator=generator_for(seed, "features"))


def area(source, features):
    """How well the beliefs in unknown labels tell those that are there."""
    soft, unknown = told(source, features), source.observed == 0
    return roc_auc_score(torch.from_numpy(source.context.split.truth == 1)[unknown], soft[unknown])


def test_hidden_labels_are_believed_more_than_absent_ones(make):
    source = make()
    assert area(source, some_features(source)) > 0.85
    assert (source.table[source.observed == 1] > 0.9).all()
    assert ((source.table > 0) & (source.table <= 1)).all()


def test_wrong_tags_are_doubted_unless_a_person_has_looked(make, tmp_path):
    answered: list[int] = []
    wrong: list[int] = []
    rng = np.random.default_rng(0)

    def mistaken(split):
        observed = split.observed.copy()
        for row in range(0, len(observed), 3):
            observed[row] = 0
            observed[row, rng.choice(np.flatnonzero(split.truth[row] != 1))] = 1
            (answered if row % 2 else wrong).append(row)
        answers = {(row, int(observed[row].argmax())): Answer("ann", "2026-01-01T00:00:00Z") for row in answered}
        return replace(split, observed=observed, annotations=Annotations(answers=answers))

    source = make(mistaken, write_world(tmp_path / "many", train=300), **{"damp.draws": 1})
    truth = torch.from_numpy(source.context.split.truth == 1).float()
    beliefs = told(source, truth + 0.3 * some_features(source, 1)[:, :1]).where(source.observed == 1, 0).sum(1)
    others = np.setdiff1d(np.arange(len(truth)), answered + wrong)
    assert (beliefs[answered] == 1).all()
    assert beliefs[wrong].mean() < 0.2
    assert beliefs[others].mean() > 0.6
    # A third are wrong. A tag at random from the six classes would be one of an image's two or so labels a third of the time.
    assert source.chosen()["consensus.random_tags"] == pytest.approx(1 / 2, abs=0.1)


def test_features_that_tell_the_labels_are_used(make):
    source, other = make(), make()
    truth = torch.from_numpy(source.context.split.truth == 1).float()
    assert area(source, truth + 0.3 * some_features(source, 1)[:, :1]) > area(other, some_features(other))
    assert source.trust["backbone"] > other.trust["backbone"]
    assert source.chosen()["consensus.backbone"] == pytest.approx(source.trust["backbone"], abs=1e-3)


def test_without_a_tag_the_teachers_first_class_is_what_others_are_like(make):
    source = make(**{"damp.draws": 1})
    source.observed.zero_()
    source.tags.zero_()
    source.evidence()
    truth = source.context.split.truth == 1
    assert roc_auc_score(truth.ravel(), source.opinions["likeness"].ravel()) > 0.7
    first = source.opinions["teacher"].argmax(1)
    assert source.examples.argmax(1).tolist() == first.tolist()
    assert told(source, some_features(source)).sum() == pytest.approx(EXPECTED * len(truth), rel=1e-3)


def test_labels_are_made_once_and_kept_in_the_checkpoint(make):
    source, resumed = make(), make()
    first = told(source, some_features(source))
    assert torch.equal(told(source, some_features(source, 1)), first)  # the features of a trained backbone know the tags
    resumed.load_state_dict(through_a_file(source.state_dict()))
    resumed.fill()
    assert torch.equal(told(resumed, some_features(resumed, 2)), first)
    assert resumed.trust == source.trust


def test_the_number_of_labels_is_estimated_from_what_the_teacher_finds(make):
    source = make()
    found = source.evidence()
    assert found.dtype == torch.int8
    assert not found[source.observed != 0].any()
    truth = source.context.split.truth == 1
    assert 1 + found.sum(1).float().mean() == pytest.approx(truth.sum(1).mean(), rel=0.3)


def test_an_image_is_like_others_by_the_whole_of_it_and_its_best_tile(make):
    source = make(**{"damp.draws": 1})
    views = torch.from_numpy(source.views.seen(1, np.arange(len(source.observed))).astype(np.float32))
    regression = TagRegression(views[:, 0], source.tags)
    source.evidence()
    for row in (0, 5):
        found = regression(views[[row]], views[[row], 0], source.tags[[row]])[0].numpy()
        for column in range(found.shape[1]):
            score = (found[0, column] + max(found[1:, column])) / 2
            assert source.opinions["likeness"][row, column] == pytest.approx(np.log(max(score, 0.05 / found.shape[1])), abs=1e-5)


def test_only_unknown_labels_become_pseudo_labels(make):
    source = make()
    told(source, some_features(source))
    source.table[source.observed == 0] = 0.4
    source.table[0] = 0.6
    pseudo, unknown = source.pseudo_labels(), source.observed == 0
    assert pseudo[0][unknown[0]].all()
    assert pseudo.sum() == unknown[0].sum()
    assert torch.equal(source.labels(3), pseudo)


def test_the_opinions_are_let_go_once_they_are_weighed(make):
    source = make()
    assert source.opinions == {}  # to fill a store takes none
    source.evidence()
    assert set(source.opinions) == {"teacher", "likeness"}
    told(source, some_features(source))
    assert source.opinions == {}


def test_a_score_of_nothing_is_an_opinion_that_another_can_outweigh():
    assert opinion(torch.zeros(2, 5)) == pytest.approx(np.full((2, 5), np.log(0.05 / 5)))
