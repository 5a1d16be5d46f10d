"""A class that no training image is tagged with: the teacher speaks for it, or it is left out, or it stops the training."""

import json

import pytest

from tests.cli.run import aevlp, refused
from tests.colours import COLOURS, write_world

UNTAGGED = "red"


@pytest.fixture
def untagged(tmp_path):
    """A world whose training images have one tag each, none of them `UNTAGGED`; some show that colour all the same."""
    folder = write_world(tmp_path / "untagged", train=60)
    header, *rows = (folder / "labels.csv").read_text().splitlines()
    kept = [header]
    for row in rows:
        image, labels, split = row.split(",")
        tags = [name for name in labels.split(";") if split == "test" or name != UNTAGGED]
        if tags:
            kept.append(f"{image},{';'.join(tags if split == 'test' else tags[:1])},{split}")
    (folder / "labels.csv").write_text("\n".join(kept) + "\n")
    return folder


@pytest.fixture
def options(plain):
    return [*plain, "--observe", "given", "--train.mode", "linear"]


@pytest.fixture
def taught(options):
    return [*options, "--teacher", "tests.colours:teacher", "--damp.temperature", "0.1"]


def train(capsys, data, run, *words):
    answer = aevlp(capsys, "train", data, "--out", run, *words)
    assert answer.code == 0, answer.err
    return answer, json.loads((run / "result.json").read_text())


@pytest.mark.parametrize("method", ["consensus", "aevlp"])
def test_the_teacher_speaks_for_it(capsys, untagged, taught, tmp_path, method):
    answer, result = train(capsys, untagged, tmp_path / "run", *taught, "--method", method)
    assert f"1 of 6 classes have no example; they are learnt from the teacher's labels alone: {UNTAGGED}" in answer.err
    test = [line for line in (untagged / "labels.csv").read_text().splitlines() if line.endswith(",test")]
    by_chance = 100 * sum(UNTAGGED in line for line in test) / len(test)
    assert result["per_class_AP"][UNTAGGED] > 1.5 * by_chance


def test_it_can_be_left_out(capsys, untagged, options, tmp_path):
    run, others = tmp_path / "run", [name for name in COLOURS if name != UNTAGGED]
    drop = ["--classes-without-examples", "drop"]
    answer, result = train(capsys, untagged, run, *options, "--method", "an", *drop)
    assert f"1 of 6 classes have no example and are left out: {UNTAGGED}" in answer.err
    assert list(result["per_class_AP"]) == others
    evaluated = aevlp(capsys, "eval", run, untagged, "--device", "cpu")  # leaves out the same
    assert evaluated.code == 0, evaluated.err
    out = tmp_path / "labels.csv"
    labelled = aevlp(capsys, "label", untagged, "--run", run, "--out", out, "--witness", "model", "--device", "cpu")
    assert labelled.code == 0, labelled.err
    assert UNTAGGED not in out.read_text()


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["--method", "an"], "train with a method that asks a teacher"),
        (["--classes-without-examples", "stop"], "leave these classes out with --classes-without-examples drop"),
    ],
)
def test_it_stops_the_training(capsys, untagged, options, tmp_path, words, advice):
    message = refused(capsys, "train", untagged, "--out", tmp_path / "run", *options, *words)
    assert f"1 of 6 classes have no example among the 47 training images ({UNTAGGED})" in message
    assert advice in message
    assert not (tmp_path / "run").exists()


def test_a_comparison_is_of_methods_that_can_all_learn_it(capsys, untagged, taught, tmp_path):
    words = [*taught, "--methods", "consensus,an", "--out", tmp_path / "sweep"]
    assert "train with a method that asks a teacher" in refused(capsys, "compare", untagged, *words)
    assert not (tmp_path / "sweep" / "an-0").exists()


def test_check_says_what_can_be_done(capsys, untagged):
    answer = aevlp(capsys, "check", untagged)
    assert answer.code == 0, answer.err
    assert f"classes without an example to train on (1): {UNTAGGED}" in answer.out
    assert "methods without one need --classes-without-examples drop" in answer.out
    assert UNTAGGED in refused(capsys, "check", untagged, "--classes-without-examples", "stop")


@pytest.fixture
def tagless(tmp_path):
    """A world without a tag on its training images, and with fully labelled ones for validation."""
    folder = write_world(tmp_path / "tagless", train=90)
    header, *rows = (folder / "labels.csv").read_text().splitlines()
    train = [row.split(",")[0] for row in rows if row.endswith(",train")]
    changed = [row.replace(",train", ",val") for row in rows if row.split(",")[0] in train[60:]]
    changed += [row for row in rows if not row.endswith(",train")] + [f"{name},,train" for name in train[:60]]
    (folder / "labels.csv").write_text("\n".join([header, *changed]) + "\n")
    return folder


def test_without_any_tag_the_teacher_and_the_images_that_look_alike_are_enough(capsys, tagless, taught, tmp_path):
    answer, result = train(capsys, tagless, tmp_path / "run", *taught, "--epochs", "30")
    assert "none of the 60 training images has a label; they are learnt from the teacher's labels alone" in answer.err
    assert [result["chosen"][f"consensus.{name}"] for name in ("teacher", "likeness", "backbone")] == [0.7, 0.7, 0.7]
    assert result["baselines"]["model"] > 1.3 * result["baselines"]["chance"]


@pytest.mark.parametrize("words", [["--method", "an"], ["--classes-without-examples", "stop"]])
def test_without_any_tag_nobody_else_can_teach(capsys, tagless, options, tmp_path, words):
    message = refused(capsys, "train", tagless, "--out", tmp_path / "run", *options, *words)
    assert "none of the 60 training images has a label; tag some of them, or give a split 'val' with labels" in message
