"""Training on features: of a frozen backbone, of the user's own, and as a warm-up."""

import csv
import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml

from aevlp import load
from aevlp.core.errors import UserError
from aevlp.data.images import pixels_of
from aevlp.models.model_folder import load_classifier
from tests.cli.run import aevlp, refused, result_of, start
from tests.colours import COLOURS, write_backbone

LINEAR = ["--train.mode", "linear", "--train.head_learning_rate", "0.03", "--train.batch_size", "8"]


def config_of(run):
    return yaml.safe_load((run / "config.yaml").read_text())


@pytest.fixture(scope="module")
def features(world, tmp_path_factory):
    """How much of each colour an image shows, a number each: enough to learn the labels from."""
    paths = sorted((world / "images").iterdir())
    palette = np.array([*COLOURS.values()], np.float32)
    rows = []
    for path in paths:
        pixels = pixels_of(path, 32).reshape(-1, 1, 3).astype(np.float32)
        rows.append((np.abs(pixels - palette).max(-1) < 40).mean(0))
    file = tmp_path_factory.mktemp("features") / "colours.npz"
    np.savez(file, features=np.array(rows, np.float32), images=np.array([f"images/{path.name}" for path in paths]))
    return file


@pytest.fixture
def own(features):
    """Options of a training on one's own features."""
    return ["--observe", "single", "--features", features, "--device", "cpu", "--report", "false", "--epochs", "4"]


def test_the_backbone_stays_and_the_saved_model_is_a_plain_one(capsys, world, plain, backbone, tmp_path):
    run = tmp_path / "run"
    answer = aevlp(capsys, "train", world, "--out", run, *plain, *LINEAR, "--method", "an")
    assert answer.code == 0, answer.err
    before, after = (
        {name: value for name, value in load_classifier(folder).network.state_dict().items() if "classifier" not in name}
        for folder in (backbone, run / "model")
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)

    from transformers import AutoModelForImageClassification

    assert type(AutoModelForImageClassification.from_pretrained(run / "model")).__name__ == "ResNetForImageClassification"
    # What was measured on stored features is what the model says of the files themselves.
    (shown,) = re.findall(r"test: mAP ([\d.]+)", aevlp(capsys, "eval", run, world).out)
    assert float(shown) == pytest.approx(result_of(run)["mAP"], abs=0.5)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert "classifier" not in "".join(torch.load(run / "checkpoints" / "last.pt", weights_only=True)["model"])


def test_features_are_computed_once_for_all_runs(capsys, world, plain, tmp_path):
    words = ["train", world, *plain, *LINEAR, "--store", tmp_path / "views"]
    first = aevlp(capsys, *words, "--out", tmp_path / "one", "--method", "an")
    second = aevlp(capsys, *words, "--out", tmp_path / "two", "--method", "gr")
    assert first.code == second.code == 0, first.err + second.err
    logs = [(tmp_path / run / "log.txt").read_text() for run in ("one", "two")]
    assert "computed 64 of 64, 2 backbone passes" in logs[0]  # as they are and flipped
    assert second.err.count("no backbone pass") == 3  # train, val and test
    assert "backbone passes" not in logs[1]
    listed = aevlp(capsys, "store", "list", "--store", tmp_path / "views")
    assert "1 store, " in listed.out
    assert aevlp(capsys, "store", "verify", "--store", tmp_path / "views").code == 0


def test_without_a_store_it_learns_the_same(capsys, world, plain, tmp_path):
    losses = []
    for store in (tmp_path / "views", "none"):
        run = tmp_path / f"run-{store != 'none'}"
        assert aevlp(capsys, "train", world, *plain, *LINEAR, "--store", store, "--out", run, "--method", "an").code == 0
        losses.append([json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_linear_mode_brings_defaults_of_its_own_and_the_user_wins(capsys, world, own, tmp_path):
    words = ["train", world, "--recipe", "voc", "--method", "an", *own[:-2]]
    assert aevlp(capsys, *words, "--out", tmp_path / "usual").code == 0
    usual = config_of(tmp_path / "usual")["train"]
    assert (usual["mode"], usual["epochs"], usual["batch_size"], usual["head_learning_rate"]) == ("linear", 8, 16, 1e-3)
    assert (usual["patience"], usual["max_drop"]) == (None, None)
    said = ["--epochs", "2", "--train.batch_size", "4", "--train.patience", "1"]
    assert aevlp(capsys, *words, *said, "--out", tmp_path / "said").code == 0
    now = config_of(tmp_path / "said")["train"]
    assert (now["epochs"], now["batch_size"], now["patience"], now["head_learning_rate"]) == (2, 4, 1, 1e-3)
    # A recipe that is made for linear mode keeps what it says.
    (tmp_path / "mine.yaml").write_text("train:\n  mode: linear\n  epochs: 3\n")
    aevlp(capsys, "train", world, "--recipe", tmp_path / "mine.yaml", *own[:-2], "--method", "an", "--out", tmp_path / "mine")
    assert (config_of(tmp_path / "mine")["train"]["epochs"], config_of(tmp_path / "mine")["train"]["batch_size"]) == (3, 16)


def test_the_mode_decides_over_a_recipe_made_for_another(capsys, world, own, plain, tmp_path):
    def trained(name, *words):
        assert aevlp(capsys, "train", world, "--method", "an", *words, "--out", tmp_path / name).code == 0
        return config_of(tmp_path / name)["train"]

    trained("linear", *own[:-2])
    full = trained("full", "--recipe", tmp_path / "linear" / "config.yaml", "--train.mode", "full", "--features", "null", *plain)
    assert (full["mode"], full["patience"], full["batch_size"]) == ("full", 2, 16)
    (tmp_path / "mine.yaml").write_text("method: aevlp\ndamp:\n  draws: null\n")
    scored = ["--teacher", "tests.colours:teacher", "--recipe", tmp_path / "mine.yaml", "--store", tmp_path / "views"]
    assert aevlp(capsys, "score", world, *scored, "--observe", "single", "--train.mode", "linear").code == 0
    assert len(list((tmp_path / "views").glob("*/draw-*"))) == 4


def test_own_features_are_learnt_from_and_asked_about(capsys, world, features, own, tmp_path):
    run = tmp_path / "run"
    answer = aevlp(capsys, "train", world, "--out", run, *own, "--method", "full", *LINEAR, "--epochs", "60")
    assert answer.code == 0, answer.err
    assert result_of(run)["mAP"] > 90  # the features say it all
    assert (result_of(run)["backbone"], result_of(run)["features"]) == (None, str(features))

    judged = aevlp(capsys, "eval", run, world)
    assert f"test: mAP {result_of(run)['mAP']:.2f}" in judged.out
    assert aevlp(capsys, "predict", run, features, "--out", tmp_path / "said.csv").code == 0
    rows = list(csv.DictReader((tmp_path / "said.csv").open()))
    with np.load(features) as stored:
        assert [row["image"] for row in rows] == stored["images"].tolist()
        found = load(run).predict(stored["features"])
    assert [float(row["red"]) for row in rows] == pytest.approx([each["red"] for each in found], abs=1e-6)
    assert load(run).labels(np.load(features)["features"][:1]) == [[name for name in rows[0]["labels"].split(";") if name]]
    with pytest.raises(UserError, match="the features hold a value that is not a finite 32-bit number"):
        load(run).predict(np.array([[np.nan, 1, 2, 3, 4, 1e300]]))
    card = (run / "model" / "README.md").read_text()
    assert "the features of one, 6 numbers" in card
    assert "base_model" not in card


def test_the_length_of_features_does_not_matter(capsys, world, features, own, tmp_path):
    """Embeddings of unit length and those a thousand times as long lead to the same model."""
    with np.load(features) as stored:
        np.savez(tmp_path / "long.npz", features=1000 * stored["features"], images=stored["images"])
    maps = []
    for name, file in (("short", features), ("long", tmp_path / "long.npz")):
        words = [*own, "--features", file, "--method", "an"]
        assert aevlp(capsys, "train", world, "--out", tmp_path / name, *words).code == 0
        maps.append([json.loads(line)["loss"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()])
    assert maps[0] == pytest.approx(maps[1], rel=1e-4)


@pytest.mark.parametrize("method", ["aevlp", "mime", "smile", "role", "em-apl", "ll-cp", "vlpl", "gpr+random"])
def test_every_kind_of_method_trains_on_features(capsys, world, own, tmp_path, method):
    teacher = ["--teacher", "tests.colours:teacher"] if method in ("aevlp", "vlpl") else []
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *own, *teacher, "--method", method)
    assert answer.code == 0, answer.err
    assert result_of(tmp_path / "run")["mAP"] > 0
    load(tmp_path / "run")


def test_a_report_is_made_of_a_run_on_features(capsys, world, own, tmp_path):
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *own, "--method", "an", "--report", "true")
    assert answer.code == 0, answer.err
    page = (tmp_path / "run" / "report.html").read_text()
    assert "none: features of" in page


def test_a_run_on_features_is_resumed_as_if_it_had_not_stopped(capsys, world, own, tmp_path):
    words = ["train", str(world), *map(str, own), "--method", "role"]
    assert aevlp(capsys, *words, "--out", tmp_path / "whole").code == 0
    run = str(tmp_path / "killed")
    command = [sys.executable, "-m", "tests.cli.killed", "third_epoch", *words, "--out", run]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert aevlp(capsys, *words, "--out", run, "--resume").code == 0
    whole, again = (load_classifier(tmp_path / name / "model").state_dict() for name in ("whole", "killed"))
    assert all(torch.equal(whole[key], again[key]) for key in whole)


def test_other_features_are_not_resumed_with(capsys, world, features, own, tmp_path):
    file = tmp_path / "mine.npz"
    file.write_bytes(features.read_bytes())
    words = ["train", world, "--out", tmp_path / "run", *own, "--features", file, "--method", "an"]
    assert aevlp(capsys, *words).code == 0
    (tmp_path / "run" / "result.json").unlink()
    with np.load(features) as stored:
        np.savez(file, features=stored["features"] + 1, images=stored["images"])
    assert "was started on other features" in refused(capsys, *words, "--resume")


@pytest.mark.parametrize("mode", ["linear", "linear-then-full"])
def test_other_weights_of_the_backbone_are_not_resumed_with(capsys, world, plain, tmp_path, mode):
    """Else a head would go on upon features that it was not made for, and they be stored as those of the new weights."""
    folder = write_backbone(tmp_path / "backbone")
    words = ["train", world, "--out", tmp_path / "run", *plain, "--backbone", folder, "--method", "an", "--train.mode", mode]
    words += ["--train.linear_init", "2"] if mode == "linear-then-full" else []
    assert aevlp(capsys, *words).code == 0
    (tmp_path / "run" / "result.json").unlink()
    write_backbone(folder, seed=5)
    message = refused(capsys, *words, "--resume")
    assert message == (
        f"--resume: {tmp_path / 'run'} was started on other weights of its backbone; put them back, or choose another --out"
    )


@pytest.mark.soak
def test_two_processes_warm_up_the_head_that_one_would(capsys, world, plain, tmp_path):
    """Then they train the backbone too, of which they did not hear before."""
    mode = ["--train.mode", "linear-then-full", "--train.linear_init", "1", "--epochs", "2", "--method", "gr"]
    words = ["train", world, *plain, *mode]
    assert aevlp(capsys, *words, "--out", tmp_path / "1").code == 0
    process = start(*words, "--out", tmp_path / "2", "--store", tmp_path / "views", processes=2)
    _, err = process.communicate()
    assert process.returncode == 0, err
    lines = [[json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()] for run in "12"]
    assert lines[0][0]["loss"] == pytest.approx(lines[1][0]["loss"], rel=1e-4)
    assert lines[0][1]["loss"] == pytest.approx(lines[1][1]["loss"], rel=0.1)  # batch statistics are each process's own


def test_a_warm_up_trains_the_head_first(capsys, world, plain, backbone, tmp_path):
    run = tmp_path / "run"
    mode = ["--train.mode", "linear-then-full", "--train.linear_init", "1", "--epochs", "2", "--method", "gr"]
    answer = aevlp(capsys, "train", world, "--out", run, *plain, *mode)
    assert answer.code == 0, answer.err
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 2
    state = torch.load(run / "checkpoints" / "last.pt", weights_only=True)["model"]
    start = {f"network.{name}": value for name, value in load_classifier(backbone).network.state_dict().items()}
    moved = [name for name in state if "classifier" not in name and not torch.equal(state[name], start[name])]
    assert moved  # the second epoch trained the backbone
    # With one epoch more of the head alone, nothing of the backbone has moved after the first.
    head = ["--train.mode", "linear", "--epochs", "1", "--train.batch_size", "16", "--train.head_learning_rate", "1e-2"]
    assert aevlp(capsys, "train", world, "--out", tmp_path / "head", *plain, *head, "--method", "gr").code == 0
    alone = json.loads((tmp_path / "head" / "metrics.jsonl").read_text())
    assert lines[0]["val_mAP"] == pytest.approx(alone["val_mAP"])


def test_what_cannot_be_trained_so_is_refused(capsys, world, plain, own, features, tmp_path):
    out = ["--out", tmp_path / "run"]
    for command in ("train", "compare"):
        message = refused(capsys, command, world, *out, *own, "--backbone", "demo")
        assert message == "--backbone demo: has no part in a training on --features; leave one of them out"
    said = refused(capsys, "train", world, *out, *plain, "--train.mode", "linear", "--method", "boostlu+an")
    assert "the head boostlu needs a feature map" in said
    assert "--train.mode full" in said
    said = refused(capsys, "train", world, *out, *own, "--train.mode", "full", "--method", "an")
    assert "features alone have no backbone to train" in said
    said = refused(capsys, "train", world, *out, *plain, "--train.mode", "linear-then-full", "--train.linear_init", "3")
    assert "--train.linear_init must be at least 1 and below the number of epochs (3)" in said
    with np.load(features) as stored:
        np.savez(tmp_path / "few.npz", features=stored["features"][:5], images=stored["images"][:5])
    said = refused(capsys, "train", world, *out, *own, "--features", tmp_path / "few.npz", "--method", "an")
    assert "no features for" in said
    assert "of the split 'train'" in said
    assert not (tmp_path / "run").exists()


def test_images_and_features_are_not_mistaken_for_each_other(capsys, world, plain, own, features, tmp_path):
    run, pictures = tmp_path / "run", tmp_path / "pictures"
    assert aevlp(capsys, "train", world, "--out", run, *own, "--method", "an", "--epochs", "1").code == 0
    assert aevlp(capsys, "train", world, "--out", pictures, *plain, "--method", "an", "--epochs", "1").code == 0
    assert "cannot look at images" in refused(capsys, "predict", run, world / "images")
    assert "takes no features" in refused(capsys, "predict", pictures, features)
    assert "must be the only PATH" in refused(capsys, "predict", run, features, world / "images")
    with np.load(features) as stored:
        np.savez(tmp_path / "wide.npz", features=np.tile(stored["features"], 2), images=stored["images"])
    assert "takes no features; leave it out" in refused(capsys, "eval", pictures, world, "--features", features)
    assert "12 numbers for each image, and the model takes 6" in refused(
        capsys, "eval", run, world, "--features", tmp_path / "wide.npz"
    )
    assert "takes features [N, 6], not [16, 12]" in refused(capsys, "predict", run, tmp_path / "wide.npz")


def test_the_loss_of_an_epoch_is_the_mean_of_its_steps(capsys, world, plain, tmp_path):
    losses = []
    for size in ("8", "16"):
        words = ["--method", "an", "--train.mode", "linear", "--epochs", "1", "--train.batch_size", size]
        run = tmp_path / size
        assert aevlp(capsys, "train", world, "--out", run, *plain, *words, "--train.head_learning_rate", "0").code == 0
        losses.append(json.loads((run / "metrics.jsonl").read_text())["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
