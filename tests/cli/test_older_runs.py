"""Runs that version 0.5.0 wrote (runs-0.5.0/make.sh) open in this version and give the same figures; its stores are not read."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from aevlp.data.readers import read
from aevlp.data.records import table_records
from tests.cli.run import aevlp, refused
from tests.colours import write_backbone, write_world

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


def test_labels_are_completed_and_the_views_are_made_anew(capsys, place):
    """Views were drawn by the images' names, and are now drawn by their content."""
    answer = done(capsys, "label", "world", "--run", "full", *OPTIONS, "--out", "answers/found.csv")
    assert "store: stores of version 0.6.0 or older are not read, their images are computed anew" in answer.err
    assert "since then images, labels or their order have changed" not in answer.err
    expected, found = read_table(ANSWERS / "full-label.csv"), read_table(place / "answers" / "found.csv")
    assert len(found) == 56
    for one, other in zip(found, expected, strict=True):
        for column in ("image", "split"):
            assert one[column] == other[column]
        assert one["labels"] == other["observed"]  # where proposed labels stand no longer beside the given ones


def test_a_table_of_completed_labels_is_read_by_its_own_meaning(place):
    """It held proposed labels and absences as labels and negatives; those are proposals, as in a table of this version."""
    rows = read_table(ANSWERS / "full-label.csv")
    (place / "answers").mkdir()
    shutil.copy(ANSWERS / "full-label.csv", place / "answers" / "old.csv")
    found = read(place / "answers" / "old.csv")
    proposed = 0
    for record, row in zip(table_records(found), rows, strict=True):
        assert set(record.confirmed) == {name for name in row["observed"].split(";") if name}
        old = [part.rpartition("=")[0] for part in row["proposed"].split(";") if part]
        assert sorted(record.proposed) == sorted(old)
        proposed += len(old)
    assert proposed > 10


def test_the_store_is_listed_as_older_and_can_be_removed(capsys, place):
    listed = done(capsys, "store", "list", "--store", "store").out
    keys = [manifest.parent.name for manifest in (OLD / "store").glob("*/manifest.json")]
    assert all(key[:8] in listed for key in keys)
    assert listed.count("older format") == len(keys)
    assert done(capsys, "store", "verify", "--store", "store").out.count("older format, not checked") == len(keys)
    done(capsys, "store", "prune", *keys, "--store", "store", "--yes")
    assert not [key for key in keys if (place / "store" / key).exists()]


def test_an_unfinished_run_is_not_resumed_with_other_views(capsys, place):
    message = refused(capsys, "train", "world", "--out", "unfinished", "--resume")
    assert message.startswith("--resume: unfinished was started by version 0.6.0 or older")
    assert message.endswith("finish it with that version, or start a new run")


def test_a_finished_run_is_not_trained_again(capsys, place):
    assert "finished" in done(capsys, "train", "world", "--out", "full", "--resume").err
