"""`--dry-run`: what there is to do, and nothing done."""

import re

import pytest

from tests.cli.run import aevlp, refused
from tests.colours import write_world


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("photos") / "world", train=60, test=0)


def test_a_training_is_estimated_and_not_begun(capsys, photos, small, tmp_path):
    words = ["train", photos, "--out", tmp_path / "run", *small, "--damp.draws", "2", "--store", tmp_path / "views"]
    answer = aevlp(capsys, *words, "--dry-run")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0] == "images: 48 train, 12 val; 6 classes"
    assert lines[1].startswith("teacher tests.colours:teacher, 17 views each: 108 image passes; about ")
    assert " images/s here, " in lines[1]
    assert lines[2].startswith("training, 3 epochs: 144 image passes; about ")
    assert lines[3].startswith("in all: about ")
    assert "free at" in lines[3]
    assert lines[4].startswith(f"next: aevlp train {photos} --out {tmp_path}/run ")
    assert "--dry-run" not in lines[4]
    assert not (tmp_path / "run").exists()

    answer = aevlp(capsys, *words)
    assert answer.code == 0, answer.err
    assert re.search(r"17 views each: 108 image passes, (1\d|2\d) of them stored; about ", answer.err)  # those of the estimate
    assert "108 image passes, 108 of them stored" in aevlp(capsys, *words, "--overwrite", "--dry-run").out


def test_scoring_and_labelling_are_estimated(capsys, photos, small, tmp_path):
    store = ["--store", tmp_path / "views"]
    assert aevlp(capsys, "score", photos, *small, *store, "--damp.draws", "1").code == 0
    answer = aevlp(capsys, "score", photos, *small, *store, "--damp.draws", "2", "--dry-run")
    assert answer.code == 0, answer.err
    assert "17 views each: 120 image passes, 60 of them stored; about " in answer.out
    out = tmp_path / "completed.csv"
    answer = aevlp(capsys, "label", photos, "--out", out, *small, *store, "--damp.draws", "1", "--dry-run")
    assert answer.code == 0, answer.err
    assert "17 views each: 60 image passes, 60 of them stored" in answer.out
    assert answer.out.splitlines()[-1].startswith(f"next: aevlp label {photos} --out {out}")
    assert not out.exists()


def test_models_that_are_not_here_are_named(capsys, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    answer = aevlp(capsys, "train", photos, "--out", tmp_path / "run", "--store", tmp_path / "views", "--dry-run")
    assert answer.code == 0, answer.err
    assert (
        "to download first: openai/clip-vit-base-patch16 (teacher), microsoft/resnet-50 (backbone); size and speed are not known"
        in answer.out
    )
    words = ["train", photos, "--out", tmp_path / "run", "--teacher", "./mine", "--dry-run"]
    assert "neither a folder nor a name" in refused(capsys, *words)
