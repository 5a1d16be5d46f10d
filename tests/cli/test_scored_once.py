"""The teacher looks at a view once: whatever else changes, its embeddings are in the store."""

import csv
import shutil
from pathlib import Path

import pytest
from PIL import Image

from aevlp.store.fill import _Filling
from tests.cli.run import aevlp, result_of, weights_of


@pytest.mark.parametrize(
    "change",
    [
        ["--method", "gpr+damp", "--loss.w1", "9"],
        ["--damp.global_threshold", "0.3"],
        ["--damp.temperature", "0.5"],
        ["--teacher.prompt", "something {} in it"],
        ["--seed", "3"],
        ["--damp.noise", "false"],
        ["--damp.negative_fraction", "0"],
    ],
)
def test_a_second_run_makes_no_teacher_pass(capsys, world, small, tmp_path, passes, change):
    aevlp(capsys, "train", world, "--out", tmp_path / "one", *small)
    assert len(passes) > 0
    passes.clear()
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "two", *small, *change)
    assert answer.code == 0, answer.err
    assert passes == []
    assert "no teacher pass" in answer.err
    assert "no teacher pass" in (tmp_path / "two" / "log.txt").read_text()


@pytest.mark.parametrize(
    "change", [["--damp.seed", "1"], ["--damp.grid", "3"], ["--damp.overlap", "0"], ["--damp.augment", "false"]]
)
def test_other_views_are_scored_anew(capsys, world, small, tmp_path, passes, change):
    aevlp(capsys, "score", world, *small)
    first = len(passes)
    aevlp(capsys, "score", world, *small, *change)
    assert len(passes) > first


def test_score_fills_the_store_that_train_reads(capsys, world, small, tmp_path, passes):
    assert aevlp(capsys, "score", world, *small).code == 0
    passes.clear()
    assert aevlp(capsys, "train", world, "--out", tmp_path / "run", *small).code == 0
    assert passes == []


def test_fewer_draws_than_epochs_are_recombined(capsys, world, small, tmp_path, passes):
    aevlp(capsys, "score", world, *small, "--damp.draws", "1")
    splits = [row["split"] for row in csv.DictReader((world / "labels.csv").open())]
    val = round(0.2 * splits.count("train"))
    images = {"train": splits.count("train") - val, "val": val}
    assert sum(passes) == images["train"] + images["val"]
    passes.clear()
    words = [*small, "--method", "aevlp", "--damp.draws", "2"]
    assert aevlp(capsys, "train", world, "--out", tmp_path / "run", *words).code == 0
    assert sum(passes) == images["train"]  # the second draw; one of the validation images is enough
    assert result_of(tmp_path / "run")["pseudo_labels"]["recall"] > 0


@pytest.mark.parametrize("is_linear", [False, True], ids=["the teacher's", "the backbone's"])
def test_an_image_that_changes_before_it_is_embedded_is_refused_and_nothing_of_it_kept(
    capsys, world, small, plain, tmp_path, monkeypatch, is_linear
):
    """The store files embeddings under the content that was listed; those of other content would be wrong for ever."""
    photos = Path(shutil.copytree(world, tmp_path / "photos"))
    changed = photos / next(row["image"] for row in csv.DictReader((photos / "labels.csv").open()) if row["split"] == "train")
    words = [*plain, "--method", "gr", "--train.mode", "linear", "--epochs", "1"] if is_linear else small
    before, fill = changed.read_bytes(), _Filling.run

    def fill_after_a_change(self):
        Image.new("RGB", (40, 40), "white").save(changed)
        return fill(self)

    with monkeypatch.context() as patch:
        patch.setattr(_Filling, "run", fill_after_a_change)
        answer = aevlp(capsys, "train", photos, "--out", tmp_path / "first", *words)
    assert answer.code == 2
    assert f"{changed}: changed since this command read it first" in answer.err
    changed.write_bytes(before)
    assert aevlp(capsys, "train", photos, "--out", tmp_path / "again", *words).code == 0
    assert aevlp(capsys, "train", world, "--out", tmp_path / "undisturbed", *words, "--store", tmp_path / "new").code == 0
    assert weights_of(tmp_path / "again") == weights_of(tmp_path / "undisturbed")


def test_without_a_store_nothing_is_kept_and_labels_are_the_same(capsys, world, small, tmp_path):
    aevlp(capsys, "train", world, "--out", tmp_path / "one", *small, "--store", "none")
    assert not (tmp_path / "cache").exists()
    aevlp(capsys, "train", world, "--out", tmp_path / "two", *small)
    assert weights_of(tmp_path / "one") == weights_of(tmp_path / "two")
    assert (tmp_path / "cache").exists()
    (tmp_path / "three").mkdir()
    aevlp(capsys, "train", world, "--out", tmp_path / "three", *small, "--store", tmp_path / "elsewhere")
    assert list((tmp_path / "elsewhere").glob("*/manifest.json"))
