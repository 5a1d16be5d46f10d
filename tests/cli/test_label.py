"""`aevlp label`: predictors, files and refusals."""

import csv
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from aevlp.cli.main import main
from aevlp.data import prepare, read
from aevlp.data.answers import AnswerStore, GivenAnswer
from tests.cli.run import aevlp, refused, start
from tests.colours import COLOURS, write_world

FAST = ["--report", "false"]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return tmp_path_factory.mktemp("places")


@pytest.fixture
def store(places):
    """A store that all tests here share: the views of the world of colours."""
    return ["--store", str(places / "views")]


@pytest.fixture
def run(places, world, small, store):
    """A finished training on the world of colours. Made here, where no test sees the user's cache."""
    if not (places / "run").exists():
        main(["train", str(world), "--out", str(places / "run"), *small, *store, *FAST])
    return places / "run"


@pytest.fixture
def no_teacher(places, world, plain):
    """A finished training of a method without a teacher."""
    if not (places / "no-teacher").exists():
        main(["train", str(world), "--out", str(places / "no-teacher"), *plain, "--epochs", "1", "--method", "an", *FAST])
    return places / "no-teacher"


def rows(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def names(text):
    return {part.split("=")[0] for part in text.split(";") if part}


def check_rows(file, world, *, observe="single"):
    """That a file says of every image what was observed, and nothing else about that; the proposed labels of training images."""
    data = prepare(read(world), observe=observe)
    found = rows(file)
    by_name = {row["image"].split("/")[-1]: row for row in found}
    splits = [split for split in (data.train, data.val, data.test) if split is not None]
    assert len(found) == len(by_name) == sum(len(split.names) for split in splits)
    for split in splits:
        for name, labels in zip(split.names, split.observed, strict=True):
            row = by_name[name.split("/")[-1]]
            given = {data.classes[c] for c in np.flatnonzero(labels == 1)}
            proposed, absent = names(row["proposed"]), names(row["proposed_negatives"])
            assert row["split"] == split.name
            assert names(row["labels"]) == given
            assert not proposed & given
            assert not names(row["candidates"]) & (given | proposed | absent)
            assert not absent & (given | proposed)
            assert names(row["doubted"]) <= given
            if split.truth is not None and split.name != "train":
                assert not proposed
                assert names(row["negatives"]) == set(data.classes) - given
    return [row for row in found if row["split"] == "train"]


def predictors_of(row):
    return {part.split(":")[0] for part in row["witnesses"].split(";") if part}


def test_the_teacher_alone(capsys, world, small, store, tmp_path):
    out = tmp_path / "out" / "completed.csv"
    answer = aevlp(capsys, "label", world, "--out", out, *small, *store)
    assert answer.code == 0, answer.err
    train = check_rows(out, world)
    assert {who for row in train for who in predictors_of(row)} == {"teacher", "likeness"}
    assert "measured on 8 fully labelled images" in answer.out
    assert f"written: {out}" in answer.out
    # The truth of the training images is known here, and the teacher knows its colours.
    truth = {row["image"].split("/")[-1]: names(row["labels"]) for row in rows(world / "labels.csv")}
    right = [name in truth[row["image"].split("/")[-1]] for row in train for name in names(row["proposed"])]
    assert len(right) > 15
    assert sum(right) / len(right) > 0.8
    precision = re.search(r"against the labels that were hidden: new labels precision ([\d.]+) %", answer.out)
    assert precision is not None
    assert float(precision[1]) == pytest.approx(100 * sum(right) / len(right), abs=0.1)


def test_the_model_alone(capsys, world, run, tmp_path):
    out = tmp_path / "completed.csv"
    answer = aevlp(capsys, "label", world, "--out", out, "--run", run, "--witness", "model")
    assert answer.code == 0, answer.err
    assert "teacher pass" not in answer.err
    assert {who for row in check_rows(out, world) for who in predictors_of(row)} == {"model"}  # single positives, as in the run
    assert "was trained on labels of these images and hardly doubts them, so that nothing about its proposals" in answer.err
    assert "measured on" not in answer.out


def test_a_model_knows_its_images_by_their_content(capsys, world, run, tmp_path):
    """Another table of the same images, elsewhere, is not a new set; other images are."""
    again = tmp_path / "again"
    shutil.copytree(world, again)
    for path in (again / "images").iterdir():
        path.rename(path.with_name(f"renamed-{path.name}"))
    (again / "labels.csv").write_text((world / "labels.csv").read_text().replace("images/", "images/renamed-"))
    other = write_world(tmp_path / "other", seed=5)
    words = ["--run", run, "--witness", "model", "--out"]
    assert "hardly doubts them" in aevlp(capsys, "label", again, *words, tmp_path / "a.csv").err
    answer = aevlp(capsys, "label", other, *words, tmp_path / "b.csv")
    assert "hardly doubts them" not in answer.err
    assert "measured on" in answer.out or "no new label is proposed" in answer.out
    seen = [row for row in rows(world / "labels.csv") if row["split"] == "train"]
    for row in seen:  # now they are to measure the model on
        shutil.copy(world / row["image"], other / f"images/seen-{Path(row['image']).name}")
    with (other / "labels.csv").open("a") as file:
        file.writelines(f"images/seen-{Path(row['image']).name},{row['labels']},val\n" for row in seen)
    answer = aevlp(capsys, "label", other, *words, tmp_path / "c.csv")
    assert "hardly doubts them" in answer.err
    assert "measured on" not in answer.out


def test_both_with_a_model_that_has_not_seen_the_image(capsys, world, run, store, tmp_path):
    """The run's own options hold, and every image is scored by a model that was trained without it."""
    out = tmp_path / "completed.jsonl"
    words = ["label", world, "--run", run, "--folds", "2"]
    answer = aevlp(capsys, *words, "--out", out)
    assert answer.code == 0, answer.err
    assert "hardly doubts" not in answer.err
    scores = [s for line in out.read_text().splitlines() for s in json.loads(line)["proposed"].values()]
    assert scores
    assert all(set(score) == {"confidence", "teacher", "likeness", "model"} for score in scores)
    logs = [(folder / "log.txt").read_text() for folder in sorted((run / "folds").iterdir())]
    assert len(logs) == 2
    for log in logs:  # what the teacher has seen of the whole split serves its parts
        assert "no teacher pass" in log
        assert "16 images x 3 draws" in log
        assert not re.search(r"[1-9]\d* teacher passes", log)

    again = aevlp(capsys, *words, "--out", tmp_path / "again.jsonl", "--min-precision", "0.2")
    assert again.code == 0, again.err
    assert "training into" in answer.err
    assert "training into" not in again.err
    assert len(list((run / "folds").iterdir())) == 2


def test_the_file_is_an_image_set_to_train_on(capsys, world, small, plain, store, tmp_path):
    out = tmp_path / "completed.csv"
    assert aevlp(capsys, "label", world, "--out", out, *small, *store).code == 0
    answer = aevlp(capsys, "check", out)
    assert answer.code == 0, answer.err
    assert re.search(r"proposed labels that nobody has confirmed: \d+; they count as unknown \(--proposed\)", answer.out)
    written = {row["image"]: row for row in rows(out)}
    for meaning in ("unknown", "positive"):
        data = prepare(read(out), proposed=meaning)
        assert data.classes == tuple(COLOURS)
        for name, labels in zip(data.train.names, data.train.observed, strict=True):
            row = written[name]
            proposed = names(row["proposed"]) if meaning == "positive" else set()
            assert {data.classes[c] for c in np.flatnonzero(labels == 1)} == names(row["labels"]) | proposed
            assert not (labels == -1).any()  # a proposed absence is no confirmed one
        assert ((data.train.observed == 1).sum() > len(data.train.names)) == (meaning == "positive")
    options = [*plain, "--observe", "given", "--epochs", "1", "--method", "an", *FAST]
    answer = aevlp(capsys, "train", out, "--out", tmp_path / "run", *options)
    assert answer.code == 0, answer.err
    assert "proposed labels that nobody has confirmed count as unknown; --proposed positive trains on them" in answer.err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["images"] == {"train": 32, "val": 8, "test": 16}


def test_incomplete_labels_only(capsys, small, store, tmp_path):
    """One label per image, and no image with all of its own: no precision is claimed."""
    world = write_world(tmp_path / "world", train=80, test=0)
    lines = (world / "labels.csv").read_text().splitlines()
    one_each = [re.sub(r"(,\w+);[^,]*", r"\1", line) for line in lines]
    (world / "labels.csv").write_text("\n".join(one_each) + "\n")
    out = tmp_path / "completed.csv"
    truth = {line.split(",")[0]: names(line.split(",")[1]) for line in lines[1:]}
    known = sum(map(len, truth.values())) / len(truth)
    words = [*small, *store, "--observe", "given", "--epochs", "1", "--train.expected_positives", known]
    answer = aevlp(capsys, "label", world, "--out", out, *words)
    assert answer.code == 0, answer.err
    assert "80 images: 1.00 observed labels each" in answer.out
    found = rows(out)
    right = [name in truth[row["image"].removeprefix("world/")] for row in found for name in names(row["proposed"])]
    assert len(right) > 40
    expected = re.search(r"new labels: expected precision \d+ %, unverified \((\d+) to (\d+) % if an image has", answer.out)
    assert expected is not None
    assert float(expected[1]) < 100 * sum(right) / len(right) <= 100
    assert f"next: aevlp review {out}    (its audit measures" in answer.out
    message = refused(capsys, "label", world, "--out", tmp_path / "x.csv", *words, "--min-precision", "0.9")
    assert "has no fully labelled images to measure a precision on; label some (50 or more) with all their labels" in message
    assert not (tmp_path / "x.csv").exists()


def test_settings_are_tuned_first_if_asked_for(capsys, world, small, store, tmp_path):
    words = [*small, *store, "--damp.temperature", "3", "--damp.tune", "true"]  # with 3, all classes look alike
    answer = aevlp(capsys, "label", world, "--out", tmp_path / "completed.csv", *words)
    assert answer.code == 0, answer.err
    assert re.search(r"tuned: temperature (?!3)", answer.err)


@pytest.fixture
def flat(world, tmp_path):
    """Images and a list of classes, no labels."""
    folder = tmp_path / "flat"
    shutil.copytree(world / "images", folder)
    (folder / "classes.txt").write_text((world / "classes.txt").read_text())
    return folder


def test_images_without_labels(capsys, flat, world, small, store, tmp_path):
    """The teacher proposes by its own rule."""
    words = ["label", flat, *small, *store, "--observe", "given", "--damp.top_k", "2", "--damp.global_threshold", "0.3"]
    out = tmp_path / "out" / "completed.csv"
    for more in (["--min-precision", "0.9"], ["--witness", "both"]):
        message = refused(capsys, *words, "--out", out, *more)
        assert ("no fully labelled images to measure a precision on" if "0.9" in more else "there is no model to use") in message
        assert not out.parent.exists()
    answer = aevlp(capsys, *words, "--out", out)
    assert answer.code == 0, answer.err
    assert "no image has a label to fit confidences to: labels are proposed by DAMP's rule" in answer.out
    truth = {row["image"].split("/")[-1]: names(row["labels"]) for row in rows(world / "labels.csv")}
    found = rows(out)
    assert len(found) == 56
    assert {len(names(row["proposed"])) for row in found} == {1, 2}
    assert all(float(part.split("=")[1]) >= 0.3 for row in found for part in row["proposed"].split(";"))
    right = [name in truth[row["image"].split("/")[-1]] for row in found for name in names(row["proposed"])]
    assert sum(right) / len(right) > 0.8


def test_images_without_labels_and_two_predictors(capsys, flat, run, tmp_path):
    message = refused(capsys, "label", flat, "--out", tmp_path / "x.csv", "--run", run, "--witness", "both", "--observe", "given")
    assert "has no label to weight two predictors by; choose one with --witness teacher or --witness model" in message
    assert not (tmp_path / "x.csv").exists()
    answer = aevlp(capsys, "label", flat, "--out", tmp_path / "x.csv", "--run", run, "--witness", "model", "--observe", "given")
    assert answer.code == 0, answer.err
    assert {who for row in rows(tmp_path / "x.csv") for who in predictors_of(row)} == {"model"}


def test_a_precision_out_of_reach(capsys, world, small, store, tmp_path):
    out = tmp_path / "completed.csv"
    words = ["--damp.temperature", "1e9", "--min-precision", "1"]  # so warm that all classes look alike
    answer = aevlp(capsys, "label", world, "--out", out, *small, *store, *words)
    assert answer.code == 0, answer.err
    assert "with 8 fully labelled images, no least confidence keeps a precision of 100 % by" in answer.out
    assert not any(row["proposed"] for row in check_rows(out, world))


def test_nothing_to_find(capsys, world, small, store, tmp_path):
    """A fully labelled set has nothing to complete."""
    out = tmp_path / "completed.csv"
    answer = aevlp(capsys, "label", world, "--out", out, *small, *store, "--observe", "given", "--zeros", "negative")
    assert answer.code == 0, answer.err
    assert "0.00 proposed, 0.00 proposed to be absent" in answer.out
    assert "hidden" not in answer.out
    assert not any(row["proposed"] or row["candidates"] for row in rows(out))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--folds", "2"], "--folds: trains models like a run's; name the run with --run"),
        (["--folds", "1"], "--folds must be at least 2, not 1"),
        (["--min-precision", "1.5"], "--min-precision must be above 0 and at most 1, not 1.5"),
        (["--min-confidence", "0"], "--min-confidence must be above 0 and at most 1, not 0.0"),
        (["--min-precision", "0.9", "--min-confidence", "0.9"], "--min-precision and --min-confidence exclude each other"),
        (["--min-precision", "nan"], "argument --min-precision: must be a number or null, not 'nan'"),
        (["--max-lost", "1.5"], "--max-lost must be from 0 to 1, not 1.5"),
        (["--witness", "both"], "--witness both: there is no model to use; name a trained run with --run"),
        (["--witness", "model"], "--witness model: there is no model to use; name a trained run with --run"),
        (["--witness", "me"], "argument --witness: must be teacher or model or both or null, not 'me'"),
        (["--out-format", "xml"], "--out-format xml: no such format"),
        (["--run", "{nowhere}"], "nowhere: not a run folder (no config.yaml)"),
        (["--run={nowhere}"], "nowhere: not a run folder (no config.yaml)"),
        (["--run"], "argument --run: expected one argument"),
        (["--method", "an"], "--witness teacher: the method an has no teacher"),
    ],
)
def test_wrong_options(capsys, world, plain, tmp_path, words, message):
    out = tmp_path / "out" / "completed.csv"
    words = [word.replace("{nowhere}", str(tmp_path / "nowhere")) for word in words]
    assert message in refused(capsys, "label", world, "--out", out, *plain, *words)
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--folds", "2", "--witness", "teacher"], "--folds: trains models like a run's; name the run with --run, and use it"),
        (["--folds", "33"], "--folds must be at most 32, the number of training images, not 33"),
    ],
)
def test_wrong_options_with_a_run(capsys, world, run, tmp_path, words, message):
    out = tmp_path / "out" / "completed.csv"
    assert message in refused(capsys, "label", world, "--out", out, "--run", run, *words)
    assert not out.parent.exists()


def test_a_file_that_exists_is_left_alone(capsys, world, small, tmp_path):
    out = tmp_path / "completed.csv"
    out.write_text("years of work")
    assert f"--out {out}: exists; remove it or choose another name" in refused(capsys, "label", world, "--out", out, *small)
    assert out.read_text() == "years of work"
    assert "end it in one of" in refused(capsys, "label", world, "--out", tmp_path / "completed.doc", *small)
    assert not (tmp_path / "cache").exists()  # before any work


def test_a_run_of_other_classes(capsys, no_teacher, tmp_path):
    other = write_world(tmp_path / "other")
    for name in ("labels.csv", "classes.txt"):
        (other / name).write_text((other / name).read_text().replace("black", "noir"))
    message = refused(capsys, "label", other, "--out", tmp_path / "completed.csv", "--run", no_teacher)
    assert "have different classes (only in DATA: noir; only in RUN: black)" in message
    assert not (tmp_path / "completed.csv").exists()


def test_a_run_without_a_teacher(capsys, world, no_teacher, tmp_path):
    out = tmp_path / "completed.csv"
    for witness in ("both", "teacher"):
        message = refused(capsys, "label", world, "--out", out, "--run", no_teacher, "--witness", witness)
        assert f"--witness {witness}: the method an has no teacher; use --witness model" in message
        assert not out.exists()
    answer = aevlp(capsys, "label", world, "--out", out, "--run", no_teacher)  # its model alone, then
    assert answer.code == 0, answer.err
    assert {who for row in check_rows(out, world) for who in predictors_of(row)} == {"model"}


@pytest.mark.soak
def test_two_processes_write_what_one_does(small, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # which torchrun sets: sums of other parts differ in their last digits
    world = write_world(tmp_path / "world", train=45, test=4)
    words = ["label", world, *small, "--epochs", "1"]
    one, two = tmp_path / "one" / "completed.csv", tmp_path / "two" / "completed.csv"
    started = [
        start(*words, "--out", file, "--store", tmp_path / f"views-{number}", processes=number, env=environment)
        for number, file in ((1, one), (2, two))
    ]
    for process in started:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert out.count("written: ") == 1  # one voice
    assert two.read_bytes() == one.read_bytes()
    assert [path.name for path in two.parent.iterdir()] == ["completed.csv"]


def test_a_rejected_label_never_comes_back_and_an_accepted_one_stays(capsys, small, store, tmp_path):
    """Wrong proposals are rejected and right ones accepted: none is proposed again, and all are written with their states."""
    world = write_world(tmp_path / "world", train=60, test=0)
    truth = read(world)
    first = [truth.classes[column] for column in (truth.labels == 1).argmax(1)]
    rows_of = [f"{name},{label}" for name, label in zip(truth.names, first, strict=True)]
    (world / "labels.csv").write_text("\n".join(["image,labels", *rows_of]) + "\n")
    words = ["label", world, *small, *store, "--observe", "given", "--damp.temperature", "0.5"]
    assert aevlp(capsys, *words, "--out", tmp_path / "one.csv").code == 0
    there = {
        name: {truth.classes[c] for c in np.flatnonzero(row == 1)} for name, row in zip(truth.names, truth.labels, strict=True)
    }
    given = [
        GivenAnswer(row["image"].removeprefix("world/"), label, 1 if label in there[row["image"].removeprefix("world/")] else -1)
        for row in rows(tmp_path / "one.csv")
        for label in [*names(row["proposed"]), *names(row["candidates"])][:2]
    ]
    assert {answer.value for answer in given} == {1, -1}
    AnswerStore(world / "answers.sqlite").record("ann", given, kind="grid")
    answer = aevlp(capsys, *words, "--out", tmp_path / "two.csv")
    assert answer.code == 0, answer.err
    assert f"answers of people: {len(given)}, from {world / 'answers.sqlite'}" in answer.err
    for row in rows(tmp_path / "two.csv"):
        own = [each for each in given if each.image == row["image"].removeprefix("world/")]
        assert names(row["accepted"]) == {each.label for each in own if each.value == 1}
        assert names(row["negatives"]) == {each.label for each in own if each.value == -1}
        asked = names(row["proposed"]) | names(row["candidates"]) | names(row["proposed_negatives"])
        assert not asked & {each.label for each in own}
        assert row["answers"].count("=ann@") == len(own)
