"""DAMP's settings chosen before training: by `aevlp tune` for a recipe, or by `aevlp train --damp.tune`."""

import csv
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from PIL import Image

from aevlp.sources.damp import Damp
from tests.cli.run import aevlp, refused, result_of, weights_of
from tests.colours import write_world

CHOSEN = ("temperature", "global_threshold", "top_k", "negative_fraction")
WRONG = ["--damp.temperature", "0.5", "--damp.global_threshold", "0.9"]


@pytest.fixture
def small(small) -> list[str]:
    """The options of a small run, with the method whose settings are tuned."""
    return [*small, "--method", "aevlp"]


@pytest.fixture(scope="module")
def larger(tmp_path_factory) -> Path:
    return write_world(tmp_path_factory.mktemp("larger") / "world [1]", train=100)


def damp_of(file: Path) -> dict:
    return yaml.safe_load(file.read_text())["damp"]


def test_the_recipe_leads_to_the_settings_that_were_chosen(capsys, larger, small, tmp_path, passes):
    recipe = tmp_path / "own.yaml"
    answer = aevlp(capsys, "tune", larger, *small, *WRONG, "--damp.grid", "3", "--out", recipe)
    assert answer.code == 0, answer.err
    assert f"{larger}: 20 fully labelled validation images; in percent" in " ".join(answer.out.split())
    before, after = re.findall(r"F1 ([\d.]+)", answer.out)  # on the training images
    assert float(before) < 20
    assert float(after) > 80
    assert len([line for line in answer.out.splitlines() if "best at" in line]) == 15
    assert recipe.read_text().startswith(f"# use it: aevlp train {larger} --out RUN --recipe {recipe}\n")
    assert len(passes) > 0
    passes.clear()
    words = ["train", larger, "--recipe", recipe, "--epochs", "1"]
    answer = aevlp(capsys, *words, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert passes == []  # the first draw is in the store
    used = damp_of(tmp_path / "run" / "config.yaml")
    assert used == damp_of(recipe)
    assert (used["grid"], used["tune"]) == (3, False)
    assert used["temperature"] != 0.5
    assert result_of(tmp_path / "run")["chosen"] == {}
    assert result_of(tmp_path / "run")["pseudo_labels"]["recall"] > 0.7


def test_the_first_draw_is_enough_to_tune_by(capsys, world, small, tmp_path, passes):
    aevlp(capsys, "score", world, *small, "--damp.draws", "1")
    assert sum(passes) > 0
    passes.clear()
    assert aevlp(capsys, "tune", world, *small, "--damp.draws", "3", "--out", tmp_path / "own.yaml").code == 0
    assert passes == []
    assert damp_of(tmp_path / "own.yaml")["draws"] == 3


def test_observed_labels_alone_are_enough_to_tune_by(capsys, larger, small, tmp_path):
    """The images of which all is known are there too, under another path, to judge the choice by."""
    lines = ["image,labels,split"]
    for row in csv.DictReader((larger / "labels.csv").open()):
        if row["split"] == "train":
            lines.append(f"{larger / row['image']},{row['labels'].split(';')[0]},train")
    table = tmp_path / "labels.csv"
    table.write_text("\n".join(lines) + "\n")
    recipe = tmp_path / "own.yaml"
    words = ["tune", table, *small, "--observe", "given"]
    answer = aevlp(capsys, *words, *WRONG, "--out", recipe)
    assert answer.code == 0, answer.err
    assert "80 training images, estimated from their observed labels" in " ".join(answer.out.split())
    assert "whose labels are all known" not in answer.out
    said = [word for name in CHOSEN for word in (f"--damp.{name}", damp_of(recipe)[name])]
    judged = aevlp(capsys, "tune", larger, *small, *said, "--out", tmp_path / "judged.yaml").out
    assert float(re.findall(r"as it was: .* F1 ([\d.]+); chosen", " ".join(judged.split()))[0]) > 80


def test_train_tunes_first_if_asked_to_and_goes_on_with_it_when_it_was_killed(capsys, world, small, tmp_path, monkeypatch):
    assert aevlp(capsys, "tune", world, *small, *WRONG, "--out", tmp_path / "own.yaml").code == 0
    wanted = {f"damp.{name}": damp_of(tmp_path / "own.yaml")[name] for name in CHOSEN}
    words = [*small, *WRONG, "--damp.tune", "--store", str(tmp_path / "views")]
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "whole", *words)
    assert answer.code == 0, answer.err
    result = result_of(tmp_path / "whole")
    assert result["chosen"] == wanted
    assert result["pseudo_labels"]["recall"] > 0.7  # of the settings in its configuration it would be 0
    assert f"tuned: temperature {wanted['damp.temperature']}, global_threshold" in answer.err
    kept = damp_of(tmp_path / "whole" / "config.yaml")
    assert (kept["temperature"], kept["global_threshold"], kept["tune"]) == (0.5, 0.9, True)

    parted = ["train", str(world), "--out", str(tmp_path / "run"), *words]
    killed = subprocess.run([sys.executable, "-m", "tests.cli.killed", "batch", *parted], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    monkeypatch.setattr(Damp, "tuning", lambda self: pytest.fail("tuned again"))
    answer = aevlp(capsys, *parted, "--resume")
    assert answer.code == 0, answer.err
    assert result_of(tmp_path / "run")["chosen"] == wanted
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--store", "none"], "--store none: settings are chosen from stored views; name a folder"),
        (["--method", "gpr+random"], "--method gpr+random: has no pseudo-labels of DAMP to tune; use aevlp, or LOSS+damp"),
        (["--damp.grib", "3"], "unknown option --damp.grib (did you mean '--damp.grid'?)"),
    ],
)
def test_what_cannot_be_tuned_is_refused(capsys, world, plain, tmp_path, passes, words, message):
    teacher = ["--teacher", "tests.colours:teacher"] if "--method" not in words else []
    assert message in refused(capsys, "tune", world, *plain, *teacher, *words, "--out", tmp_path / "own.yaml")
    assert not (tmp_path / "own.yaml").exists()
    assert passes == []


def test_a_file_that_exists_is_kept(capsys, world, small, tmp_path, passes):
    (tmp_path / "own.yaml").write_text("mine")
    message = refused(capsys, "tune", world, *small, "--out", tmp_path / "own.yaml")
    assert message == f"--out {tmp_path}/own.yaml: exists; remove it or choose another name"
    assert (tmp_path / "own.yaml").read_text() == "mine"
    assert passes == []


def test_images_without_any_label_are_nothing_to_tune_by(capsys, small, tmp_path):
    folder = tmp_path / "flat"
    folder.mkdir()
    for number in range(6):
        Image.new("RGB", (20, 20), (40 * number, 20, 240)).save(folder / f"{number}.png")
    (folder / "classes.txt").write_text("blue\nred\n")
    message = refused(capsys, "tune", folder, *small, "--observe", "given", "--out", tmp_path / "own.yaml")
    assert message == f"{folder}: no label is observed, so there is nothing to tune by; label some images"
    assert not (tmp_path / "own.yaml").exists()
