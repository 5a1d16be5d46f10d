"""Runs and stores that version 0.5.0 wrote (runs-0.5.0/make.sh) open in this version and give the same figures."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.run import aevlp
from tests.colours import ColourTeacher, write_backbone, write_world

OLD = Path(__file__).parent / "runs-0.5.0"
ANSWERS = OLD / "answers"
OPTIONS = (
    *("--observe", "single", "--backbone", "resnet", "--model.image_size", "32", "--device", "cpu", "--store", "store"),
    *("--teacher", "tests.colours:teacher", "--damp.temperature", "0.1"),
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder with copies of the runs and of their store, and the images that they were made with."""
    for name in ("full", "linear", "unfinished", "store"):
        shutil.copytree(OLD / name, tmp_path / name)
    write_world(tmp_path / "world")
    write_backbone(tmp_path / "resnet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_teacher(monkeypatch):
    """The store has every view that is needed: the teacher must not be asked."""

    def refuse(*_):
        raise AssertionError("the teacher was asked")

    monkeypatch.setattr(ColourTeacher, "encode_images", refuse)


def done(capsys, *words: object):
    """A command's answer when it succeeds."""
    answer = aevlp(capsys, *words)
    assert answer.code == 0, answer.err
    return answer


def read_lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def read_table(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


@pytest.mark.parametrize("run", ["full", "linear"])
def test_predictions_are_the_same(capsys, place, run):
    done(capsys, "predict", run, "world/images/0[45]*.png", "--device", "cpu", "--out", "found.jsonl")
    expected, found = read_lines(ANSWERS / f"{run}-predict.jsonl"), read_lines(place / "found.jsonl")
    assert len(found) == 16
    assert [line["image"] for line in found] == [line["image"] for line in expected]
    assert [line["labels"] for line in found] == [line["labels"] for line in expected]
    for one, other in zip(found, expected, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


@pytest.mark.parametrize("run", ["full", "linear"])
def test_the_figures_of_eval_are_the_same(capsys, place, run):
    answer = done(capsys, "eval", run, "world", "--device", "cpu", "--probabilities", "found.csv")
    result = json.loads((OLD / run / "result.json").read_text())
    for figure in (result["mAP"], result["labels"]["macro_F1"], *result["per_class_AP"].values()):
        assert f"{figure:.2f}" in answer.out
    expected, found = read_table(ANSWERS / f"{run}-eval.csv"), read_table(place / "found.csv")
    assert [row.pop("image") for row in found] == [row.pop("image") for row in expected]
    for one, other in zip(found, expected, strict=True):
        assert {k: float(v) for k, v in one.items()} == pytest.approx({k: float(v) for k, v in other.items()}, abs=1e-6)


@pytest.mark.parametrize("run", ["full", "linear"])
def test_reports_can_be_written_anew(capsys, place, run):
    done(capsys, "report", run)
    mean = json.loads((OLD / run / "result.json").read_text())["mAP"]
    page = (place / run / "report.html").read_text()
    assert f"{mean:.2f}" in page


def confidences(cell: str) -> dict[str, float]:
    return {name: float(value) for name, value in (pair.split("=") for pair in cell.split(";") if pair)}


def test_labels_are_completed_as_before_from_the_store(capsys, place, no_teacher):
    done(capsys, "label", "world", "--run", "full", *OPTIONS, "--out", "answers/found.csv")
    expected, found = read_table(ANSWERS / "full-label.csv"), read_table(place / "answers" / "found.csv")
    assert len(found) == 56
    for one, other in zip(found, expected, strict=True):
        for column in ("image", "split", "labels", "observed", "doubted"):
            assert one[column] == other[column]
        for column in ("proposed", "proposed_negatives", "witnesses"):
            assert confidences(one[column]) == pytest.approx(confidences(other[column]), abs=1e-6)


def test_the_store_is_listed_and_whole(capsys, place):
    listed = done(capsys, "store", "list", "--store", "store").out
    for folder in (OLD / "store").glob("*/manifest.json"):
        assert folder.parent.name[:8] in listed
    done(capsys, "store", "verify", "--store", "store")


def test_an_unfinished_run_goes_on_to_the_same_end(capsys, place, no_teacher):
    answer = done(capsys, "train", "world", "--out", "unfinished", "--resume")
    assert "resumed after epoch 1" in answer.err
    expected, found = (
        json.loads(file.read_text()) for file in (ANSWERS / "uninterrupted-result.json", place / "unfinished" / "result.json")
    )
    assert found["mAP"] == pytest.approx(expected["mAP"], abs=1e-6)
    assert found["labels"] == pytest.approx(expected["labels"], abs=1e-6)
    assert found["origin"] == expected["origin"]
    assert found["fingerprint"] == expected["fingerprint"]
    epochs = read_lines(place / "unfinished" / "metrics.jsonl")
    for one, other in zip(epochs, read_lines(ANSWERS / "uninterrupted-metrics.jsonl"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-6)
        assert one["val_mAP"] == pytest.approx(other["val_mAP"], abs=1e-6)
        assert one["pseudo_labels"] == other["pseudo_labels"]
