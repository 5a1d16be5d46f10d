"""The damp source: what it scores, what it keeps, what it labels with."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from accelerate import Accelerator

from aevlp.config.config import build_config
from aevlp.core.engine import teacher_precision
from aevlp.core.errors import UserError
from aevlp.damp.labels import final_scores, scores
from aevlp.damp.quality import precision_recall
from aevlp.data import Dataset, prepare, read
from aevlp.models.image_settings import IMAGENET_MEAN, IMAGENET_STD
from aevlp.sources.damp import Damp
from tests.colours import write_world

SMALL = {"teacher.name": "tests.colours:teacher", "damp.temperature": 0.1, "train.epochs": 3}


@pytest.fixture
def make(world, tmp_path):
    data = prepare(read(world), observe="single")

    def source(**values):
        config = build_config("test", "aevlp", {**SMALL, **values})
        made = Damp(config.source_context(data.train, data.classes, tmp_path / "views", Accelerator(cpu=True)), config.source)
        made.fill()
        return made

    return source


def test_labels_change_from_epoch_to_epoch_and_are_mostly_right(make):
    source = make()
    first, second = source.labels(1), source.labels(2)
    assert first.dtype == torch.int8
    assert not torch.equal(first, second)
    assert torch.equal(source.labels(1), first)
    assert (first == -1).sum(1).tolist() == [1] * len(first)  # floor(0.2 * 6) classes


def test_the_noise_of_a_checkpoint_is_used(make):
    source = make(**{"damp.neighbours": 3})
    before = source.labels(1)
    state = source.state_dict()
    source.load_state_dict({**state, "weights": [50 * weight for weight in state["weights"]]})
    assert not torch.equal(source.labels(1), before)
    source.load_state_dict(state)
    assert torch.equal(source.labels(1), before)


def test_released_code_normalises_as_imagenet_does(make):
    released = make(compat="released-code")
    assert released.views.scorer.settings.released_code
    assert released.views.scorer.mean == pytest.approx(IMAGENET_MEAN)
    assert released.views.scorer.std == pytest.approx(IMAGENET_STD)
    assert (released.labels(1) != -1).all()
    paper = make()
    assert paper.views.scorer.mean == (0.5, 0.5, 0.5)
    assert released.views.store is not None
    assert paper.views.store is not None
    assert released.views.store.folder != paper.views.store.folder


def test_another_teacher_has_a_store_of_its_own(make, monkeypatch):
    first = make()
    monkeypatch.setattr("tests.colours.ColourTeacher.fingerprint", "colours-2")
    second = make()
    assert first.views.store is not None
    assert second.views.store is not None
    assert first.views.store.folder != second.views.store.folder
    assert second.views.scorer.forward_batches == first.views.scorer.forward_batches > 0


def test_later_epochs_take_each_view_from_one_of_the_draws(make):
    source = make(**{"damp.draws": 2})
    rows = np.arange(32)
    draws = [source.views.seen(draw, rows) for draw in (1, 2)]
    mixed = source.views.seen(3, rows)
    from_first = (mixed == draws[0]).all(-1)
    from_second = (mixed == draws[1]).all(-1)
    assert (from_first | from_second).all()
    assert 0.4 < (from_second & ~from_first).sum() / (from_first ^ from_second).sum() < 0.6
    assert (make(**{"damp.draws": 2, "seed": 1}).views.seen(3, rows) != mixed).any()
    some = np.array([30, 2, 3])  # an image's combination does not depend on the others
    assert (source.views.seen(3, some) == mixed[some]).all()
    assert (source.views.seen(4, rows) != mixed).any()


def test_without_a_store_the_labels_are_the_same(make, world, tmp_path):
    """Also where a pack ends in the middle of a batch."""
    stored = make()
    data = prepare(read(world), observe="single")
    config = build_config("test", "aevlp", SMALL)
    in_loop = Damp(config.source_context(data.train, data.classes, None, Accelerator(cpu=True)), config.source)
    for epoch in (1, 2):
        assert torch.equal(in_loop.labels(epoch), stored.labels(epoch))


def test_half_precision_is_for_gpus_and_eight_bits_for_cpus(make):
    with pytest.raises(UserError, match=r"--teacher\.precision fp16: a CPU cannot"):
        make(**{"teacher.precision": "fp16"})
    with pytest.raises(UserError, match=r"--teacher\.precision int8: not for a teacher of your own"):
        make(**{"teacher.precision": "int8"})
    gpu = torch.device("cuda")
    assert teacher_precision("auto", gpu) == "fp16"
    assert teacher_precision("auto", torch.device("cpu")) == "fp32"
    with pytest.raises(UserError, match="only a CPU computes in it"):
        teacher_precision("int8", gpu)


def test_a_run_does_not_go_on_with_a_teacher_of_another_precision(make):
    source = make()
    with pytest.raises(UserError, match="--resume: the teacher computed in fp16 and would now in fp32"):
        source.load_state_dict({**source.state_dict(), "precision": "fp16"})


def test_a_run_does_not_go_on_with_other_prompts(make):
    source = make()
    state = source.state_dict()
    assert state["prompts"] == source.views.prompts
    with pytest.raises(UserError) as refused:
        source.load_state_dict({**state, "prompts": "others"})
    assert str(refused.value) == (
        f"--resume: the prompts in {source.views.options.prompts} are not those that the run was started with; "
        "restore those, or start a new run"
    )
    source.load_state_dict({name: value for name, value in state.items() if name != "prompts"})  # a checkpoint of 0.4.0


@pytest.fixture
def data(world) -> Dataset:
    return prepare(read(world), observe="single")


def source_of(split, data, root, *, validation=None, **values):
    config = build_config("test", "aevlp", {**SMALL, **values})
    return Damp(config.source_context(split, data.classes, root, Accelerator(cpu=True), validation), config.source)


def test_a_part_of_a_split_is_seen_as_the_whole_was(data, tmp_path):
    whole = source_of(data.train, data, tmp_path / "views")
    whole.fill()
    rows = np.array([7, 0, 20, 21, 3])
    part = source_of(data.train.part(rows), data, tmp_path / "views")
    part.fill()
    assert part.views.scorer.forward_batches == 0
    assert part.views.store is not None
    assert whole.views.store is not None
    assert part.views.store.folder == whole.views.store.folder
    for epoch in (1, 2):
        assert torch.equal(part.labels(epoch), whole.labels(epoch)[rows])
    assert torch.allclose(part.scores(part.context.split), whole.scores(data.train)[rows], atol=1e-6)
    assert part.views.scorer.forward_batches == 0


def test_a_part_that_comes_first_has_no_other_image_looked_at(data, tmp_path):
    part = source_of(data.train.part(np.arange(4)), data, tmp_path / "views")
    assert part.views.missing() == 3 * 4
    part.fill()
    assert part.views.missing() == 0
    whole = source_of(data.train, data, tmp_path / "views")
    assert whole.views.missing() == 3 * 28
    assert whole.views.at(data.train.part(np.arange(5))).missing() == 1
    assert source_of(data.train, data, None).views.missing() == 3 * 32  # nothing is kept


def test_without_a_store_a_part_is_labelled_alike_and_no_other_image_looked_at(data):
    rows = np.array([9, 2])
    whole, part = (source_of(split, data, None) for split in (data.train, data.train.part(rows)))
    assert torch.equal(part.labels(1), whole.labels(1)[rows])
    assert part.views.scorer.forward_batches < whole.views.scorer.forward_batches


def test_images_are_found_in_whatever_packs_they_are(data, tmp_path, monkeypatch):
    """Also where images of a pack are not asked for, and where two images are equal."""
    monkeypatch.setattr("aevlp.store.fill.PACK", 8)
    whole = source_of(data.train, data, tmp_path / "views")
    whole.fill()
    assert len(whole.views.store.index(0).packs) == 4
    rows = np.array([30, 9, 31, 8, 9])
    part = source_of(data.train.part(rows), data, tmp_path / "views")
    part.fill()
    assert part.views.scorer.forward_batches == 0
    for epoch in (1, 2):
        assert torch.equal(part.labels(epoch), whole.labels(epoch)[rows])


def test_some_images_are_spread_over_the_set_and_have_their_own_embeddings(data, tmp_path, monkeypatch):
    monkeypatch.setattr("aevlp.store.fill.PACK", 10)
    looks = source_of(data.train, data, tmp_path / "views").views
    looks.fill()
    every, embeddings = looks.sample(500)
    assert every.tolist() == list(range(32))
    assert embeddings.dtype == torch.float32
    rows, fewer = looks.sample(5)
    assert rows.tolist() == [0, 8, 16, 23, 31]
    assert torch.equal(fewer, embeddings[torch.from_numpy(rows)])
    stored = np.concatenate([looks.seen(1, np.array([row])) for row in range(32)])
    assert np.array_equal(embeddings.numpy(), stored.astype(np.float32))


def test_scores_are_the_mean_of_all_draws_and_know_no_observed_label(data, tmp_path):
    source = source_of(data.train, data, tmp_path / "views", **{"damp.local_threshold": 0.6, "damp.draws": 2})
    found = source.scores(data.train)
    nothing = torch.zeros(data.train.observed.shape, dtype=torch.int8)
    views = [torch.from_numpy(source.views.seen(draw, np.arange(32))) for draw in (1, 2)]
    each = [final_scores(*scores(v, source.classes, 0.1), nothing, local_threshold=0.6)[0] for v in views]
    assert torch.allclose(found, (each[0] + each[1]) / 2, atol=1e-6)
    assert not torch.allclose(each[0], each[1])
    on_val = source.scores(data.val)
    assert on_val.shape == data.val.observed.shape
    assert data.val.truth is not None
    there = torch.from_numpy(data.val.truth == 1)
    assert on_val[there].mean() > 2 * on_val[~there].mean()


WRONG = {"damp.temperature": 0.5, "damp.global_threshold": 0.9, "damp.draws": 1}


def f1_on_the_truth(source, train) -> float:
    precision, recall = precision_recall(source.labels(1).numpy() == 1, train.observed, train.truth)
    return 2 * precision * recall / (precision + recall) if precision and recall else 0.0


@pytest.fixture(scope="module")
def larger(tmp_path_factory) -> Dataset:
    """Some more images, so that a choice by their labels is not left to chance."""
    return prepare(read(write_world(tmp_path_factory.mktemp("larger") / "world", train=120, test=0)), observe="single")


@pytest.mark.parametrize("is_labelled", [True, False])
def test_tuning_finds_its_way_from_wrong_settings(larger, tmp_path, is_labelled):
    """With and without fully labelled validation images."""
    val = larger.val if is_labelled else replace(larger.val, truth=None)
    root = tmp_path / "views"
    before = source_of(larger.train, larger, root, validation=val, **WRONG)
    before.fill()
    assert f1_on_the_truth(before, larger.train) < 0.2
    assert before.chosen() == {}
    tuned = source_of(larger.train, larger, root, validation=val, **WRONG, **{"damp.tune": True})
    tuned.fill()
    assert f1_on_the_truth(tuned, larger.train) > 0.8
    assert set(tuned.chosen()) == {f"damp.{n}" for n in ("temperature", "global_threshold", "top_k", "negative_fraction")}
    assert all(getattr(tuned.options, key.removeprefix("damp.")) == value for key, value in tuned.chosen().items())
    judged = tuned.tuning()
    assert (judged.basis, judged.images) == (("complete", 24) if is_labelled else ("estimated", 96))


def test_settings_that_were_chosen_are_kept_by_a_checkpoint(data, tmp_path, monkeypatch):
    tuned = source_of(data.train, data, tmp_path / "views", validation=data.val, **WRONG, **{"damp.tune": True})
    tuned.fill()
    resumed = source_of(data.train, data, tmp_path / "views", validation=data.val, **WRONG, **{"damp.tune": True})
    resumed.load_state_dict(tuned.state_dict())
    monkeypatch.setattr(Damp, "tuning", lambda self: pytest.fail("tuned again"))
    resumed.fill()
    assert resumed.chosen() == tuned.chosen() != {}
    assert torch.equal(resumed.labels(2), tuned.labels(2))


def test_tuning_needs_a_store_and_something_observed(data, tmp_path):
    with pytest.raises(UserError, match="--store none: settings are chosen from stored views; name a folder"):
        source_of(data.train, data, None, validation=data.val).tuning()
    unknown = replace(data.train, observed=np.zeros_like(data.train.observed), truth=None)
    source = source_of(unknown, data, tmp_path / "views", validation=replace(data.val, truth=None))
    with pytest.raises(UserError, match="no label is observed, so there is nothing to tune by; label some images"):
        source.tuning()


def test_taken_settings_are_those_that_label(data, tmp_path):
    one = source_of(data.train, data, tmp_path / "views", **WRONG)
    one.fill()
    other = {**WRONG, "damp.temperature": 0.2, "damp.global_threshold": 0.3}
    two = source_of(data.train, data, tmp_path / "views", **other)
    assert not torch.equal(one.labels(1), two.labels(1))
    one.take({"temperature": 0.2, "global_threshold": 0.3})
    assert torch.equal(one.labels(1), two.labels(1))
    assert asdict(one.options) == asdict(two.options)
