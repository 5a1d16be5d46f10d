"""Thresholds through the commands a user types: made by train, used by eval, made anew by thresholds."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from aevlp.cli.main import main
from aevlp.config.run_options import ThresholdOptions
from aevlp.data import prepare, read
from aevlp.data.dataset import complete_split
from aevlp.training.thresholds import fit_thresholds, read_thresholds
from tests.cli.run import aevlp, refused, result_of
from tests.colours import COLOURS, write_world

NAMES = list(COLOURS)


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


def trained(world, out: Path, *words: str) -> Path:
    main(["train", str(world), "--out", str(out), *words, "--epochs", "2", "--store", str(out.parent / "views")])
    return out


@pytest.fixture(scope="module")
def complete(world, plain, places) -> Path:
    """A run whose validation labels are complete, with an option of its own."""
    return trained(world, places / "complete", *plain, "--method", "full", "--thresholds.shrinkage", "3")


@pytest.fixture(scope="module")
def estimated(plain, places) -> Path:
    """One whose validation images have the labels that were given, and may have others; it has no test images either."""
    own = write_world(places / "world", train=60, test=0)
    return trained(own, places / "estimated", *plain, "--observe", "given", "--method", "gr")


@pytest.fixture
def run(complete, tmp_path) -> Path:
    """A copy to change."""
    return shutil.copytree(complete, tmp_path / "run")


def file_of(run: Path) -> dict:
    return json.loads((run / "thresholds.json").read_text())


def probabilities(capsys, run, world, split, file) -> np.ndarray:
    answer = aevlp(capsys, "eval", run, world, "--split", split, "--probabilities", file)
    assert answer.code == 0, answer.err
    return np.array([[float(row[name]) for name in NAMES] for row in csv.DictReader(file.open())])


def test_train_fits_them_on_the_validation_images(capsys, world, complete, tmp_path):
    written = file_of(complete)
    assert (complete / "model" / "thresholds.json").read_bytes() == (complete / "thresholds.json").read_bytes()
    assert (written["aim"], written["basis"], written["split"], written["images"]) == ("f1", "complete", "val", 8)
    truth = prepare(read(world), observe="single").val.truth
    assert truth is not None
    found = probabilities(capsys, complete, world, "val", tmp_path / "found.csv")
    wanted = fit_thresholds(found, truth, NAMES, ThresholdOptions(shrinkage=3), is_complete=True)
    assert written["classes"] == pytest.approx(wanted.classes, abs=1e-5)
    assert written["positives"] == pytest.approx((truth == 1).sum(1).mean())
    assert wanted.calibration is not None
    assert written["calibration"]["slope"] == pytest.approx(wanted.calibration.slope, abs=1e-2)


def test_a_result_tells_how_good_the_labels_are(capsys, world, complete, tmp_path):
    labels = result_of(complete)["labels"]
    found = probabilities(capsys, complete, world, "test", tmp_path / "found.csv")
    there = complete_split(read(world), "test").observed == 1
    given = read_thresholds(complete / "thresholds.json", NAMES).above(found)
    assert labels["macro_F1"] == pytest.approx(100 * f1_score(there, given, average="macro"))
    assert labels["micro_F1"] == pytest.approx(100 * f1_score(there, given, average="micro"))
    assert labels["macro_F1_at_half"] == pytest.approx(100 * f1_score(there, found >= 0.5, average="macro", zero_division=0))
    assert set(labels) == {"macro_F1", "micro_F1", "precision", "recall", "macro_F1_at_half"}
    assert result_of(complete)["chosen"] == {}


def test_eval_shows_f1_with_them_and_with_one_half(capsys, world, complete):
    labels = result_of(complete)["labels"]
    answer = aevlp(capsys, "eval", complete, world)
    assert f"macro F1 {labels['macro_F1']:.2f} ({labels['macro_F1_at_half']:.2f} at 0.5), measured" in answer.out
    assert answer.out.endswith(f"next: aevlp predict {complete} PATH\n")
    for name, value in file_of(complete)["classes"].items():
        (line,) = [line for line in answer.out.splitlines() if f"│ {name} " in line]
        assert f"{value:.3f}" in line


def test_eval_of_a_run_without_thresholds_shows_the_order_alone(capsys, world, run):
    (run / "thresholds.json").unlink()
    answer = aevlp(capsys, "eval", run, world)
    assert answer.code == 0, answer.err
    assert f"mAP {result_of(run)['mAP']:.2f}" in answer.out
    assert "F1" not in answer.out


def test_incomplete_validation_labels_make_them_estimates(capsys, estimated, places):
    written = file_of(estimated)
    assert (written["basis"], written["calibration"], written["images"]) == ("estimated", None, 12)
    assert written["positives"] >= 1
    assert result_of(estimated)["labels"] is None
    answer = aevlp(capsys, "eval", estimated, places / "world", "--split", "val")
    assert "lower bound" in answer.out
    own = result_of(estimated)["labels_on_val"]
    assert own["basis"] == "estimated"
    assert f"macro F1 {own['macro_F1']:.2f} ({own['macro_F1_at_half']:.2f} at 0.5), estimated for " in answer.out
    assert "AP, observed only" in answer.out
    assert "it does not tell good classes from bad ones" in " ".join(answer.out.split())


def test_how_many_positives_there_are_can_be_said(capsys, estimated, places, tmp_path):
    run = shutil.copytree(estimated, tmp_path / "run")
    words = ["thresholds", run, places / "world", "--train.expected_positives"]
    for said in (1.5, 3.0):
        assert aevlp(capsys, *words, said).code == 0
        assert file_of(run)["positives"] == pytest.approx(said)


def test_they_are_fitted_anew_for_another_aim_and_back_again(capsys, world, run):
    before = (run / "thresholds.json").read_bytes()
    answer = aevlp(capsys, "thresholds", run, world, "--thresholds.aim", "precision", "--thresholds.precision", "0.6")
    assert answer.code == 0, answer.err
    written = file_of(run)
    assert (written["aim"], written["precision"]) == ("precision", 0.6)
    assert (run / "model" / "thresholds.json").read_bytes() == (run / "thresholds.json").read_bytes()
    # It has no page to be written again.
    assert answer.out.endswith(f"written: {run}/thresholds.json\nnext: aevlp predict {run} PATH\n")
    card = (run / "model" / "README.md").read_text()
    assert f"{written['classes']['red']:.4f}" in card
    assert answer.out.startswith("val: mAP")
    assert f"{written['classes']['red']:.3f}" in answer.out
    # What is not said is as in the run.
    assert aevlp(capsys, "thresholds", run, world).code == 0
    assert (run / "thresholds.json").read_bytes() == before


def test_they_are_fitted_on_the_images_that_are_named(capsys, world, run, tmp_path):
    assert aevlp(capsys, "thresholds", run, world, "--split", "test", "--thresholds.shrinkage", "1e9").code == 0
    written = file_of(run)
    assert (written["split"], written["images"]) == ("test", 16)
    assert list(written["classes"].values()) == pytest.approx([written["overall"]] * 6, rel=1e-5)
    other = write_world(tmp_path / "other", train=30, test=0, seed=3)
    assert aevlp(capsys, "thresholds", run, other).code == 0
    assert (file_of(run)["split"], file_of(run)["images"]) == ("val", 6)


def test_labels_are_read_as_in_the_run_unless_said_otherwise(capsys, world, run):
    assert aevlp(capsys, "thresholds", run, world).code == 0
    assert file_of(run)["basis"] == "complete"  # it was trained with --observe single
    assert aevlp(capsys, "thresholds", run, world, "--observe", "given").code == 0
    assert file_of(run)["basis"] == "estimated"


@pytest.mark.parametrize("command", ["eval", "thresholds"])
def test_what_does_not_fit_is_refused(capsys, world, run, tmp_path, command):
    before = (run / "thresholds.json").read_bytes()
    assert refused(capsys, command, tmp_path, world).startswith(f"{tmp_path}: not a run folder (no config.yaml); train one")
    other = write_world(tmp_path / "other")
    for name in ("labels.csv", "classes.txt"):
        (other / name).write_text((other / name).read_text().replace("black", "noir"))
    message = refused(capsys, command, run, other)
    assert message == (
        f"{other} and {run} have different classes (only in DATA: noir; only in RUN: black); "
        "a classes.txt beside the table fixes them"
    )
    (other / "labels.csv").write_text((other / "labels.csv").read_text().replace("noir", "black"))
    (other / "classes.txt").write_text("\n".join(reversed(NAMES)) + "\n")
    assert "have different classes (another order)" in refused(capsys, command, run, other)
    result = result_of(run)
    (run / "result.json").write_text(json.dumps({**result, "versions": {**result["versions"], "aevlp": "9.1.0"}}))
    message = refused(capsys, command, run, world)
    assert message.startswith(f"{run}: made by aevlp 9.1.0, which is newer than this one (0.")
    assert message.endswith("); update aevlp")
    assert (run / "thresholds.json").read_bytes() == before


def test_eval_refuses_thresholds_that_cannot_be_used(capsys, world, run):
    whole = file_of(run)
    for content, said in (
        (json.dumps({**whole, "format": 2}), "written by a newer aevlp (format 2, this one knows 1); update aevlp"),
        (json.dumps(whole)[:100], "not a file of thresholds ("),
        (json.dumps({**whole, "classes": {"dog": 0.3}}), "its classes are not the model's; make it anew with"),
    ):
        (run / "thresholds.json").write_text(content)
        assert refused(capsys, "eval", run, world).startswith(f"{run}/thresholds.json: {said}")
    assert aevlp(capsys, "thresholds", run, world).code == 0  # mends it
    assert file_of(run) == whole


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--thresholds.aim", "best"], "must be f1 or precision or count, not 'best'"),
        (["--thresholds.precision", "0"], "--thresholds.precision must be above 0 and at most 1, not 0.0"),
        (["--thresholds.precision", "90"], "--thresholds.precision must be above 0 and at most 1, not 90.0"),
        (["--thresholds.shrinkage", "-1"], "--thresholds.shrinkage must be at least 0, not -1.0"),
        (["--threshold.aim", "f1"], "unknown option --threshold.aim (did you mean '--thresholds.aim'?)"),
        (["--split", "all"], "--split"),
    ],
)
def test_wrong_options(capsys, world, complete, words, message):
    before = (complete / "thresholds.json").read_bytes()
    assert message in refused(capsys, "thresholds", complete, world, *words)
    assert (complete / "thresholds.json").read_bytes() == before
