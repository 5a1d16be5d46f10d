import json
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from aevlp.core.errors import UserError
from aevlp.damp.labels import scores
from aevlp.damp.views import decode, plan_views
from aevlp.reports import collect
from aevlp.reports import evidence as module
from aevlp.reports.collect import collect_evidence
from aevlp.reports.evidence import Evidence, read_evidence, write_evidence
from aevlp.training.evaluate import by_classifier, evaluate, probabilities, ranking_metrics
from aevlp.training.finalize import FinalEvaluation
from aevlp.training.inputs import as_files
from aevlp.training.thresholds import fit_thresholds
from tests.reports.made import evidence, picture


def collected(config, data, setup, accelerator, split=None):
    """Evidence on a split (by default the test split), and the probabilities and thresholds behind it."""
    split = split or data.test
    inputs = as_files(config.model.image_size, 1)
    found = probabilities(setup.classifier, inputs(split), accelerator)
    limits = fit_thresholds(
        found, split.evaluation_labels, data.classes, config.thresholds, is_complete=split.truth is not None, split=split.name
    )
    predict = by_classifier(setup.classifier, inputs, accelerator, Path("run"))
    trained: Any = SimpleNamespace(setup=replace(setup, config=config, data=data), predict=predict)
    metrics = evaluate(found, split, data.classes, limits.above(found), limits.positives)
    return collect_evidence(trained, FinalEvaluation(limits, split, found, None, metrics, None)), found, limits


@pytest.fixture(scope="module")
def seen(untrained, tmp_path_factory):
    """Evidence of a classifier that knows nothing, with a teacher that knows much."""
    config, data, setup, accelerator = untrained(tmp_path_factory.mktemp("evidence") / "store")
    return data, setup, *collected(config, data, setup, accelerator)


def test_the_counts_are_those_of_the_split(seen):
    data, _, made, found, limits = seen
    there, given = data.test.truth == 1, limits.above(found)
    assert made.classes == data.classes
    assert (made.split, made.is_complete, made.images) == ("test", True, 16)
    np.testing.assert_array_equal(made.support, there.sum(0))
    np.testing.assert_array_equal(made.given, given.sum(0))
    np.testing.assert_array_equal(made.hits, (given & there).sum(0))
    np.testing.assert_array_equal(made.observed, (data.train.observed == 1).sum(0))
    np.testing.assert_array_equal(made.ap, list(ranking_metrics(found, data.test.truth, data.classes).per_class_AP.values()))
    np.testing.assert_array_equal(made.histograms[0].sum(1), [there.sum(), (~there).sum()])
    assert len(made.histograms) == 3  # all classes, the best third and the worst
    assert made.observed_per_image == 1
    assert made.mistaken.total == (given & ~there).sum()
    assert made.missed.total == (~given & there).sum()


def test_the_grids_show_what_they_say(seen):
    data, _, made, found, limits = seen
    place = {name: row for row, name in enumerate(data.test.names)}
    for shown, is_there in ((made.mistaken, False), (made.missed, True)):
        assert shown.examples
        for each in shown.examples:
            row, column = place[each.name], data.classes.index(each.label)
            assert (data.test.truth[row, column] == 1) == is_there == each.truth
            assert each.probability == found[row, column]
            assert (each.probability >= each.threshold) != is_there
            assert each.threshold == limits.classes[each.label]
            assert each.path == str(data.test.paths[row])
    place = {name: row for row, name in enumerate(data.train.names)}
    assert made.found.examples
    for each in made.found.examples:
        row, column = place[each.name], data.classes.index(each.label)
        assert data.train.observed[row, column] == 0
        assert each.truth == (data.train.truth[row, column] == 1)
        assert each.probability >= each.threshold


def test_the_teachers_mistakes_come_with_what_it_saw_in_the_same_boxes(seen):
    data, setup, made, *_ = seen
    pseudo = setup.source.labels(1).numpy()
    added = (pseudo != 0) & (data.train.observed == 0)
    right = (pseudo == 1) == (data.train.truth == 1)
    assert (made.teacher.total, made.teacher.agreed) == (added.sum(), (added & right).sum())
    assert made.teacher.examples
    place = {name: row for row, name in enumerate(data.train.names)}
    embeddings = torch.from_numpy(setup.source.views.seen(1, np.arange(len(place))))
    whole, tiles = scores(embeddings, setup.source.classes, setup.source.options.temperature)
    for each in made.teacher.examples:
        row, column = place[each.name], data.classes.index(each.label)
        assert pseudo[row, column] == each.pseudo
        assert added[row, column]
        assert not right[row, column]
        assert each.truth == (each.pseudo == -1)
        expected = torch.cat([whole[row][None], tiles[row]])
        assert len(each.tiles) == 17
        assert [tile.score for tile in each.tiles] == pytest.approx(expected[:, column].tolist(), abs=1e-6)
        assert [tile.top for tile in each.tiles] == [data.classes[c] for c in expected.argmax(1)]
        assert [tile.top_score for tile in each.tiles] == pytest.approx(expected.amax(1).tolist(), abs=1e-6)
        settings = setup.source.views.scorer.settings
        height, width, _ = decode(data.train.paths[row], settings).shape
        boxes = plan_views(settings, 0, data.train.digests[row], width, height).boxes / torch.tensor(
            [width, height, width, height]
        )
        assert torch.allclose(torch.tensor([tile.box for tile in each.tiles], dtype=torch.float64), boxes)


def test_a_store_may_hold_more_images_than_are_trained_on(untrained, tmp_path):
    """Scores are those of the image that is shown, wherever the store has it."""
    untrained(tmp_path / "store")[2].source.fill()
    parts = untrained(tmp_path / "store", rows=np.arange(31, -1, -2))
    views = parts[2].source.views
    made, *_ = collected(*parts)
    assert len(views.store.index(0).packs[0].digests) > len(parts[1].train.names) == 16
    assert made.teacher.examples
    for each in made.teacher.examples:
        embeddings = torch.from_numpy(views.seen(1, np.array([views.split.names.index(each.name)])))
        whole, _ = scores(embeddings, parts[2].source.classes, parts[2].source.options.temperature)
        assert each.tiles[0].score == pytest.approx(float(whole[0, made.classes.index(each.label)]), abs=1e-6)


def test_at_most_a_sample_of_the_training_images_is_predicted_again(untrained, tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "SAMPLE", 5)
    parts = untrained(tmp_path / "store")
    made, *_ = collected(*parts)
    assert made.sample == 5
    shown = {each.name for each in (*made.found.examples, *made.teacher.examples)}
    assert 0 < len(shown) <= 5
    again, *_ = collected(*parts)
    assert again.found == made.found
    other, *_ = collected(replace(parts[0], run=replace(parts[0].run, seed=7)), *parts[1:])
    assert {each.name for each in other.found.examples} != {each.name for each in made.found.examples}


def test_without_truth_the_classifiers_doubts_choose_the_pseudo_labels(untrained, tmp_path):
    config, data, setup, accelerator = untrained(tmp_path / "store")
    data = replace(data, train=replace(data.train, truth=None), val=replace(data.val, truth=None), test=None)
    made, *_ = collected(config, data, setup, accelerator, data.val)
    assert (made.split, made.is_complete, made.reliability) == ("val", False, None)
    assert made.found.agreed is None
    assert made.teacher.agreed is None
    assert {each.truth for each in (*made.mistaken.examples, *made.found.examples, *made.teacher.examples)} == {None}
    yes = [each for each in made.teacher.examples if each.pseudo == 1]
    doubts = [np.log(e.threshold / (1 - e.threshold)) - np.log(e.probability / (1 - e.probability)) for e in yes]
    assert len(yes) > 1
    assert doubts == sorted(doubts, reverse=True)


@pytest.mark.parametrize(
    ("method", "root", "reason"),
    [
        ("an", "store", "Only methods with DAMP have tiles to show."),
        ("aevlp", None, "The teacher's scores were not stored (--store none)."),
    ],
)
def test_where_the_teacher_left_nothing_the_reason_is_kept(untrained, tmp_path, method, root, reason):
    made, *_ = collected(*untrained(root and tmp_path / root, method=method))
    assert made.teacher.examples == ()
    assert made.teacher.reason == reason


def same(one, other) -> bool:
    return all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") if isinstance(a, np.ndarray) else a == b
        for a, b in ((getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    )


def test_evidence_comes_back_from_its_file_as_it_was(seen, tmp_path):
    _, _, made, *_ = seen
    file = tmp_path / "evidence.npz"
    write_evidence(file, made)
    assert same(read_evidence(file), made)
    odd = evidence(
        ("a\udcff", '"quoted"', "naïve ☂"), picture(tmp_path / "x.jpg"), reliability=None, ap=np.array([1.0, np.nan, 2.0])
    )
    write_evidence(file, odd)
    assert same(read_evidence(file), odd)
    with np.load(file, allow_pickle=False) as stored:
        assert all(stored[name].dtype != object for name in stored.files)
    assert list(tmp_path.glob(".*.part")) == []


def test_the_keys_of_the_file_are_those_of_version_0_5_0(tmp_path):
    file = tmp_path / "evidence.npz"
    write_evidence(file, evidence(("a", "b"), picture(tmp_path / "x.jpg")))
    with np.load(file, allow_pickle=False) as stored:
        text = json.loads(stored["text"].tobytes())
        arrays = set(stored.files) - {"text"}
    assert arrays == {"thresholds", "ap", "support", "given", "hits", "observed", "histograms"}
    assert arrays | set(text) == {"format", *(field.name for field in fields(Evidence))}
    for name in ("mistaken", "missed", "found", "teacher"):
        assert set(text[name]) == {"exhibits", "total", "agreed", "reason"}
    example = text["teacher"]["exhibits"][0]
    assert set(example) == {"path", "name", "label", "probability", "threshold", "truth", "others", "pseudo", "tiles"}
    assert set(example["tiles"][0]) == {"box", "top", "top_score", "score"}
    assert set(text["best"][0]) == {"label", "ap", "points", "chosen"}


def test_a_file_that_is_no_evidence_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "evidence.npz"
    np.savez(file, other=np.arange(3))
    with pytest.raises(UserError, match="not the evidence of a training"):
        read_evidence(file)
    monkeypatch.setattr(module, "FORMAT", 2)
    write_evidence(file, evidence(("a", "b"), picture(tmp_path / "x.jpg")))
    monkeypatch.undo()
    with pytest.raises(UserError, match=r"written by a newer aevlp \(format 2, this one reads 1\); update aevlp"):
        read_evidence(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda text, arrays: text.pop("split"),
        lambda text, arrays: text.update(foreign=1),
        lambda text, arrays: text.update(classes=5),
        lambda text, arrays: text.update(images="many"),
        lambda text, arrays: text.update(best=[{"label": "a"}]),
        lambda text, arrays: text["mistaken"].update(exhibits=[5]),
        lambda text, arrays: text["mistaken"].pop("exhibits"),
        lambda text, arrays: text.update(reliability=[1, 2]),
        lambda text, arrays: arrays.pop("hits"),
        lambda text, arrays: arrays.update(ap=arrays["ap"][:1]),
        lambda text, arrays: arrays.update(ap=arrays["ap"].astype("U8")),
        lambda text, arrays: arrays.update(support=arrays["support"][None]),
        lambda text, arrays: arrays.update(histograms=np.zeros(3, np.int64)),
        lambda text, arrays: arrays.update(text=np.frombuffer(b"[" * 100_000, np.uint8)),
    ],
)
def test_evidence_with_parts_that_do_not_fit_is_refused(tmp_path, change):
    file = tmp_path / "evidence.npz"
    write_evidence(file, evidence(("a", "b", "c"), tmp_path / "image.png"))
    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    text = json.loads(arrays["text"].tobytes())
    before = arrays["text"]
    change(text, arrays)
    if arrays["text"] is before:
        arrays["text"] = np.frombuffer(json.dumps(text).encode(), np.uint8)
    np.savez(file, **arrays)
    with pytest.raises(UserError, match=r"evidence\.npz: not the evidence of a training"):
        read_evidence(file)
