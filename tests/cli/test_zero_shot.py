"""The teacher as a baseline: methods that train nothing, through the commands a user types."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import aevlp as package
from aevlp.core.errors import UserError
from aevlp.damp.views import ViewSettings, views
from aevlp.data.image_files import digests
from tests.cli.run import aevlp, refused, result_of
from tests.colours import COLOURS, ColourTeacher, teacher

METHODS = ["zero-shot", "zero-shot-views"]
TEMPERATURE = 0.1


@pytest.fixture(scope="module")
def asking(tmp_path_factory) -> list[str]:
    """Options of runs that share a store; no backbone is named, and the usual one cannot be had offline."""
    store = tmp_path_factory.mktemp("zero-shot") / "store"
    return [
        *("--observe", "single", "--device", "cpu", "--teacher", "tests.colours:teacher", "--damp.draws", "2"),
        *("--damp.temperature", str(TEMPERATURE), "--store", str(store)),
    ]


def rows_of(file: Path) -> dict[str, np.ndarray]:
    with file.open(newline="") as text:
        return {row["image"]: np.array([float(row[name]) for name in COLOURS]) for row in csv.DictReader(text)}


def naive_scores(path: Path, *, tiles: bool) -> np.ndarray:
    """Softmax of the cosines of the plain whole image; with tiles, its mean with the best tile's. Averaged over two draws."""
    model, settings = teacher(), ViewSettings(16, 4, 0.2, False, 0)
    texts = torch.nn.functional.normalize(model.encode_texts([f"a photo of a {name}." for name in COLOURS]), dim=1)
    found = []
    digest = digests([path])[0]
    for draw in (0, 1):
        pixels = views(path, digest, draw, settings).permute(0, 3, 1, 2).float() / 127.5 - 1
        cosines = torch.nn.functional.normalize(model.encode_images(pixels), dim=1) @ texts.T
        scores = (cosines / TEMPERATURE).softmax(1)
        found.append((scores[0] + scores[1:].amax(0)) / 2 if tiles else scores[0])
    return torch.stack(found).mean(0).numpy()


@pytest.mark.parametrize("method", METHODS)
def test_a_run_has_everything_but_a_model(capsys, world, plain, asking, tmp_path, method):
    run = tmp_path / "run"
    answer = aevlp(capsys, "train", world, "--out", run, "--method", method, *asking)
    assert answer.code == 0, answer.err
    files = {
        "config.yaml",
        "evidence.npz",
        "log.txt",
        "metrics.jsonl",
        "report.html",
        "result.json",
        "thresholds.json",
        "tensorboard",
    }
    assert {path.name for path in run.iterdir() if not path.name.startswith(".")} == files
    result = result_of(run)
    assert f"{method}, nothing trained: val mAP {result['val_mAP']:.2f}" in answer.out
    assert (result["epochs"], result["best_epoch"], result["backbone"], result["images_per_second"]) == (0, 0, None, None)
    assert result["teacher"] == "tests.colours:teacher"
    assert result["labels"]["macro_F1"] > 0
    assert set(result["per_class_AP"]) == set(COLOURS)

    assert aevlp(capsys, "train", world, "--out", tmp_path / "an", "--method", "an", *plain).code == 0
    assert set(result) == set(result_of(tmp_path / "an"))
    assert f"next: aevlp label {world} --out {world}/completed.jsonl --recipe {run / 'config.yaml'}" in answer.out
    page = (run / "report.html").read_text()
    assert "Nothing was trained: these are scores of the teacher tests.colours:teacher." in page
    assert f"Left out: {method} trains nothing" in page

    evaluated = aevlp(capsys, "eval", run, world)
    assert f"test: mAP {result['mAP']:.2f}, macro F1 {result['labels']['macro_F1']:.2f}" in evaluated.out
    assert "no teacher pass" in evaluated.err
    assert " computed" not in evaluated.err


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("store", [[], ["--store", "none"]], ids=["stored", "not stored"])
def test_the_probabilities_are_the_teachers_scores(capsys, world, asking, tmp_path, method, store):
    noise = {"zero-shot": "true", "zero-shot-views": "false"}[method]  # the former never has text noise
    words = [*asking, "--damp.noise", noise, "--damp.augment", "false", *store]
    assert aevlp(capsys, "train", world, "--out", tmp_path / "run", "--method", method, *words).code == 0
    assert aevlp(capsys, "eval", tmp_path / "run", world, "--probabilities", tmp_path / "p.csv").code == 0
    found = rows_of(tmp_path / "p.csv")
    assert len(found) == 16
    for name, row in found.items():
        wanted = naive_scores(world / name, tiles=method == "zero-shot-views")
        np.testing.assert_allclose(row, wanted, atol=2e-3)  # the store keeps half precision
    assert result_of(tmp_path / "run")["chosen"] == {}


def test_a_comparison_pays_the_teacher_once(capsys, monkeypatch, world, small, tmp_path):
    shown, encode = [], ColourTeacher.encode_images

    def count(self, pixels):
        shown.append(len(pixels))
        return encode(self, pixels)

    monkeypatch.setattr(ColourTeacher, "encode_images", count)
    words = [
        "--methods",
        "zero-shot,zero-shot-views,aevlp",
        "--damp.draws",
        "2",
        "--store",
        tmp_path / "store",
        "--report",
        "true",
    ]
    answer = aevlp(capsys, "compare", world, "--out", tmp_path / "sweep", *small, *words)
    assert answer.code == 0, answer.err
    rows = [line.split()[1] for line in answer.out.splitlines() if line.startswith("│")]
    assert rows == ["zero-shot", "zero-shot-views", "aevlp"]
    assert sum(shown) == 17 * 2 * (32 + 8 + 16)  # two draws of the training, validation and test images, each once
    with (tmp_path / "sweep" / "results.csv").open(newline="") as file:
        lines = {row["method"]: row for row in csv.DictReader(file)}
    assert float(lines["zero-shot"]["mAP"]) < float(lines["zero-shot-views"]["mAP"])
    assert (lines["zero-shot"]["epochs"], lines["zero-shot"]["images_per_second"]) == ("0", "")
    assert "zero-shot-views" in (tmp_path / "sweep" / "report.html").read_text()
    again = aevlp(capsys, "compare", world, "--out", tmp_path / "sweep", *small, *words)
    assert again.out == answer.out
    assert again.err.count("this run is finished") == 3


@pytest.fixture(scope="module")
def finished(world, asking, tmp_path_factory) -> Path:
    """A run of the teacher alone."""
    out = tmp_path_factory.mktemp("finished") / "run"
    options = dict(zip((word.removeprefix("--") for word in asking[::2]), asking[1::2], strict=True))
    package.train(world, out, method="zero-shot", options={**options, "report": False})
    return out


@pytest.mark.parametrize("command", ["predict", "serve", "export", "label"])
def test_commands_that_need_a_model_say_what_to_do_instead(capsys, world, finished, tmp_path, command):
    words = {
        "predict": [finished, world / "images"],
        "serve": [finished],
        "export": [finished, "--out", tmp_path / "model.onnx"],
        "label": [world, "--run", finished, "--out", tmp_path / "completed.csv"],
    }[command]
    refusal = refused(capsys, command, *words)
    assert refusal.startswith(f"{finished}: a zero-shot run has no model, only scores of its teacher; train one with aevlp train")
    assert "or let the teacher alone label a set with aevlp label DATA --out FILE" in refusal
    assert list(tmp_path.glob("*.onnx")) == list(tmp_path.glob("*.csv")) == []
    with pytest.raises(UserError, match="has no model"):
        package.load(finished)


def test_thresholds_are_fitted_again_without_a_model(capsys, world, finished):
    before = json.loads((finished / "thresholds.json").read_text())
    answer = aevlp(capsys, "thresholds", finished, world, "--thresholds.aim", "count")
    assert answer.code == 0, answer.err
    after = json.loads((finished / "thresholds.json").read_text())
    assert (before["aim"], after["aim"]) == ("f1", "count")
    assert not (finished / "model").exists()
    assert "finished" in aevlp(capsys, "train", world, "--out", finished, "--resume").err
    assert not (finished / "model").exists()


def test_a_run_that_was_stopped_goes_on_and_is_not_evaluated_before(capsys, world, asking, tmp_path):
    run, words = tmp_path / "run", [*asking, "--report", "false"]
    assert aevlp(capsys, "train", world, "--out", run, "--method", "zero-shot", *words).code == 0
    before = result_of(run)
    (run / "result.json").unlink()
    assert f"{run}: the run is not finished" in refused(capsys, "eval", run, world)
    assert aevlp(capsys, "train", world, "--out", run, "--resume").code == 0
    assert result_of(run) == before


def test_settings_that_were_tuned_are_used_again(capsys, world, asking, tmp_path):
    run = tmp_path / "run"
    words = [*asking, "--report", "false", "--damp.tune", "true"]
    assert aevlp(capsys, "train", world, "--out", run, "--method", "zero-shot-views", *words).code == 0
    result = result_of(run)
    assert set(result["chosen"]) >= {"damp.temperature"}
    evaluated = aevlp(capsys, "eval", run, world)
    assert f"mAP {result['mAP']:.2f}" in evaluated.out
    assert "tuned" not in evaluated.err
    for chosen in ({"damp.unknown": 1}, {"damp.temperature": "warm"}):
        (run / "result.json").write_text(json.dumps({**result, "chosen": chosen}))
        assert "result.json: damaged (chosen: " in refused(capsys, "eval", run, world)


def test_a_set_with_other_classes_is_refused(capsys, finished, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "classes.txt").write_text("red\nblue\n")
    (tmp_path / "other" / "labels.csv").write_text("image,labels,split\na.png,red,train\nb.png,blue,test\n")
    for name in "ab":
        Image.new("RGB", (20, 20)).save(tmp_path / "other" / f"{name}.png")
    assert "have different classes" in refused(capsys, "eval", finished, tmp_path / "other")


def test_an_estimate_counts_the_views_of_validation_and_test_images(capsys, world, asking, tmp_path):
    """The default backbone is not on this machine, and not asked for."""
    words = ["train", world, "--out", tmp_path / "run", "--method", "zero-shot", *asking, "--store", tmp_path / "store"]
    answer = aevlp(capsys, *words, "--dry-run")
    assert answer.code == 0, answer.err
    assert "teacher tests.colours:teacher, 17 views each: 48 image passes" in answer.out  # two draws of 8 and 16
    assert "training" not in answer.out
    assert not (tmp_path / "run").exists()


def test_the_teacher_of_a_run_labels_a_set(capsys, world, finished, tmp_path):
    answer = aevlp(capsys, "label", world, "--recipe", finished / "config.yaml", "--out", tmp_path / "completed.csv")
    assert answer.code == 0, answer.err
    assert (tmp_path / "completed.csv").is_file()
