"""A review and the training after it: the answers are used, and `aevlp rounds` says whether the model got better."""

import json
import re
import shutil
from hashlib import blake2b

import pytest

from aevlp.cli.main import main
from aevlp.data.annotations import COMPLETE
from aevlp.data.answers import ACCEPTED, REJECTED, AnswerStore, GivenAnswer
from aevlp.data.fingerprint import DIGEST
from aevlp.data.readers import read
from tests.cli.run import aevlp, refused
from tests.colours import COLOURS, write_world

AUDITED = 12


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory, plain):
    """A set of images with one label each; a run before and a run after their review, both without the audited images."""
    folder = tmp_path_factory.mktemp("rounds")
    world = write_world(folder / "world", train=60, test=0)
    truth = read(world)
    first = [truth.classes[column] for column in (truth.labels == 1).argmax(1)]
    rows = [f"{name},{label}" for name, label in zip(truth.names, first, strict=True)]
    shutil.copy(world / "labels.csv", folder / "truth.csv")
    (world / "labels.csv").write_text("\n".join(["image,labels", *rows]) + "\n")
    store = AnswerStore(world / "answers.sqlite")
    store.keep_audit(truth.names[:AUDITED])

    def answer(number: int, *, complete: bool) -> None:
        labels = zip(truth.classes, truth.labels[number], strict=True)
        given = [GivenAnswer(truth.names[number], name, ACCEPTED if value == 1 else REJECTED) for name, value in labels]
        given += [GivenAnswer(truth.names[number], COMPLETE, ACCEPTED)] * complete
        store.record("ann", given, kind="audit" if complete else "image", keys=3, seconds=4.0)

    options = [*plain, "--observe", "given", "--method", "an", "--train.learning_rate", "3e-3", "--report", "true"]
    for number in range(AUDITED):
        answer(number, complete=True)
    main(["train", str(world), "--out", str(folder / "before"), *options, "--epochs", "1"])
    for number in range(AUDITED, 60):
        answer(number, complete=False)
    main(["train", str(world), "--out", str(folder / "after"), *options, "--epochs", "8"])
    return folder


def test_training_uses_the_answers(reviewed):
    before, after = (json.loads((reviewed / name / "result.json").read_text()) for name in ("before", "after"))
    assert before["images"] == after["images"] == {"train": 60 - AUDITED, "val": AUDITED}
    assert before["val_labels"] == after["val_labels"] == "complete"
    assert before["answers"]["complete"] == AUDITED
    assert after["answers"]["accepted"] + after["answers"]["rejected"] == 60 * len(COLOURS)


def test_rounds_compares_two_runs_on_the_audited_images(capsys, reviewed):
    answer = aevlp(capsys, "rounds", reviewed / "before", reviewed / "after", reviewed / "world")
    assert answer.code == 0, answer.err
    assert f"on {AUDITED} fully labelled images" in answer.out
    assert "180 keys and clicks in 60 actions, 4 min 00 s of a person's time" in " ".join(answer.out.split())
    assert "was trained on" not in answer.out  # the audited images are kept apart
    figures = json.loads((reviewed / "after" / "rounds.json").read_text())
    results = {name: json.loads((reviewed / name / "result.json").read_text()) for name in ("before", "after")}
    assert figures["figures"]["mAP"]["before"] == pytest.approx(results["before"]["val_mAP_present"], abs=0.01)
    assert figures["figures"]["mAP"]["after"] == pytest.approx(results["after"]["val_mAP_present"], abs=0.01)
    page = (reviewed / "after" / "rounds.html").read_text()
    assert figures["verdict"] in page
    report = (reviewed / "after" / "report.html").read_text()
    assert figures["verdict"] in report
    assert 'href="rounds.html"' in report
    assert "People have reviewed these images" in report


def test_images_that_one_of_the_models_has_seen_are_left_out(capsys, reviewed, tmp_path):
    """A run that is trained before the audit knows its images, and would look better than the later one."""
    first = shutil.copytree(reviewed / "before", tmp_path / "first")
    names = read(reviewed / "world", None).names[:2]
    digests = [blake2b((reviewed / "world" / name).read_bytes(), digest_size=DIGEST).digest() for name in names]
    with (first / "trained-on.bin").open("ab") as file:
        file.write(b"".join(digests))
    answer = aevlp(capsys, "rounds", first, reviewed / "after", reviewed / "world")
    assert answer.code == 0, answer.err
    assert f"on {AUDITED - 2} fully labelled images" in answer.out
    assert f"WARNING: first was trained on 2 of the {AUDITED} images of the split val: they are left out." in answer.out


def test_two_models_that_have_seen_the_images_are_not_compared(capsys, reviewed, monkeypatch):
    monkeypatch.setattr("aevlp.inference.rounds.FEWEST", 20)
    words = ["rounds", reviewed / "before", reviewed / "after", reviewed / "truth.csv", "--split", "train", "--zeros", "negative"]
    shutil.copytree(reviewed / "world" / "images", reviewed / "images", dirs_exist_ok=True)
    message = refused(capsys, *words)
    assert re.search(r"before was trained on \d+ and after on \d+ of the 48 images of the split 'train'; two models are", message)
    assert "compared on 20 or more that neither was trained on" in message


def test_images_without_complete_labels_are_refused(capsys, reviewed):
    words = ["rounds", reviewed / "before", reviewed / "after", reviewed / "world", "--answers", "none"]
    assert "images that are not fully labelled; two models are compared on 10 or more" in refused(capsys, *words)
