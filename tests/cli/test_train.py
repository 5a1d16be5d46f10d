import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from aevlp.cli.train import _next
from aevlp.training.run_folder import RunFolder
from tests.cli.run import aevlp, refused, result_of, weights_of
from tests.colours import COLOURS, write_world


def test_a_run_folder_holds_what_the_contract_says(capsys, world, small, tmp_path):
    run = tmp_path / "run"
    answer = aevlp(capsys, "train", world, "--out", run, *small)
    assert answer.code == 0, answer.err
    result = result_of(run)
    assert result["method"] == "consensus"
    assert result["recipe"] == "default"
    assert result["seed"] == 0
    assert 1 <= result["best_epoch"] <= result["epochs"] <= 3
    assert set(result["per_class_AP"]) == set(COLOURS)
    assert result["mAP"] == pytest.approx(sum(v or 0 for v in result["per_class_AP"].values()) / len(COLOURS))
    assert set(result["pseudo_labels"]) == {"precision", "recall", "accumulated_precision", "accumulated_recall"}
    assert result["versions"]["torch"]
    assert f"test mAP {result['mAP']:.2f}" in answer.out
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, result["epochs"] + 1))
    assert max(line["val_mAP"] for line in lines) == result["val_mAP"]
    assert {"loss", "val_mAP", "pseudo_labels", "images_per_second"} <= set(lines[0])
    model = json.loads((run / "model" / "config.json").read_text())
    assert model["problem_type"] == "multi_label_classification"
    assert list(model["id2label"].values()) == list(COLOURS)
    assert list(json.loads((run / "thresholds.json").read_text())["classes"]) == list(COLOURS)
    assert 0 < result["labels"]["macro_F1"] <= 100
    assert f"macro F1 {result['labels']['macro_F1']:.2f} on test" in answer.out
    assert (run / "log.txt").read_text().count("epoch 1 of 3") == 1
    assert (run / "tensorboard").is_dir()
    assert not list(run.rglob("*.part"))


def test_a_useless_model_ends_with_a_warning_and_a_good_one_does_not(capsys, tmp_path, plain):
    world = write_world(tmp_path / "world", train=160, test=40)
    options = ["--method", "full", "--epochs", "6", "--train.patience", "9", "--train.max_drop", "100"]
    rates = [["--train.learning_rate", rate, "--train.head_learning_rate", rate] for rate in ("5e-3", "1e-12")]
    good, useless = (
        aevlp(capsys, "train", world, "--out", tmp_path / name, *plain, *options, *rate)
        for name, rate in zip(("good", "useless"), rates, strict=True)
    )
    assert (good.code, useless.code) == (0, 0)
    result = result_of(tmp_path / "good")
    assert result["warnings"] == []
    assert result["baselines"]["beats_chance"]
    assert result["baselines"]["model"] == pytest.approx(result["val_mAP"])
    assert f"chance {result['baselines']['chance']:.2f}" in good.out
    assert "WARNING" not in good.out
    label = f"aevlp label {world} --out {world}/completed.jsonl --run {tmp_path}/good"
    assert good.out.endswith(f"next: aevlp predict {tmp_path}/good PATH\n      {label}\n")
    (warning,) = result_of(tmp_path / "useless")["warnings"]
    assert "better than chance" in warning
    assert f"WARNING: {warning}\n" in useless.out
    assert useless.out.endswith(f"next: aevlp check {world}\n")
    assert warning in (tmp_path / "useless" / "log.txt").read_text()
    assert "**Warning.** This model is" in (tmp_path / "useless" / "model" / "README.md").read_text()


def test_a_model_is_compared_with_its_teacher(capsys, world, small, tmp_path):
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *small)
    baselines = result_of(tmp_path / "run")["baselines"]
    assert baselines["teacher"] > 80  # the teacher of colours is a good one
    assert baselines["teacher"] > baselines["model"]
    assert baselines["beats_teacher"] is False
    assert f"the teacher alone {baselines['teacher']:.2f}" in answer.out


def test_what_to_do_next_depends_on_how_good_the_model_is(tmp_path):
    label, predict = ["label", tmp_path, "--out", tmp_path / "completed.jsonl"], ["predict", Path("run"), "PATH"]
    teacher_alone, with_model = [*label, "--recipe", Path("run/config.yaml")], [*label, "--run", Path("run")]
    trained: dict[str, Any] = {"epochs": 3}
    assert _next(trained, {"beats_chance": True, "beats_teacher": True}, Path("run"), tmp_path) == [predict, with_model]
    assert _next(trained, {"beats_chance": True, "beats_teacher": False}, Path("run"), tmp_path) == [teacher_alone, predict]
    assert _next(trained, {"beats_chance": False, "beats_teacher": False}, Path("run"), tmp_path) == [["check", tmp_path]]
    assert _next({"epochs": 0}, {}, Path("run"), tmp_path) == [teacher_alone]


def test_training_learns(capsys, tmp_path, plain):
    """With all labels and a sensible rate the colours are found: the loop really trains what it evaluates."""
    world = write_world(tmp_path / "world", train=160, test=40)
    options = ["--method", "full", "--epochs", "8", "--train.patience", "9", "--train.max_drop", "100"]
    options += ["--train.learning_rate", "5e-3"]
    assert aevlp(capsys, "train", world, "--out", tmp_path / "run", *plain, *options).code == 0
    assert result_of(tmp_path / "run")["mAP"] > 80


def test_config_is_reusable_as_a_recipe(capsys, world, small, tmp_path):
    aevlp(capsys, "train", world, "--out", tmp_path / "one", *small, "--damp.top_k", "2", "--seed", "5")
    again = ["--recipe", tmp_path / "one" / "config.yaml"]
    assert aevlp(capsys, "train", world, "--out", tmp_path / "two", *again).code == 0
    one, two = (yaml.safe_load((tmp_path / name / "config.yaml").read_text()) for name in ("one", "two"))
    assert (one.pop("recipe"), two.pop("recipe")) == ("default", str(tmp_path / "one" / "config.yaml"))
    assert one == two
    assert one["damp"]["top_k"] == 2
    assert weights_of(tmp_path / "one") == weights_of(tmp_path / "two")


@pytest.mark.parametrize("method", ["full", "an", "gr", "gpr+none"])
def test_every_method_trains(capsys, world, plain, tmp_path, method):
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", method)
    assert answer.code == 0, answer.err
    result = result_of(tmp_path / "run")
    assert result["method"] == method
    assert result["pseudo_labels"]["precision"] is None
    assert result["teacher"] is None


def test_released_code_is_another_way_to_label(capsys, world, small, tmp_path):
    for compat in ("paper", "released-code"):
        words = [*small, "--method", "aevlp", "--compat", compat]
        assert aevlp(capsys, "train", world, "--out", tmp_path / compat, *words).code == 0
    assert weights_of(tmp_path / "paper") != weights_of(tmp_path / "released-code")


def test_incomplete_labels_make_validation_a_lower_bound(capsys, tmp_path, small):
    """A folder per class: one label each, no test split, nothing else known."""
    world = write_world(tmp_path / "world", train=60, test=0)
    for row in csv.DictReader((world / "labels.csv").open()):
        first = row["labels"].split(";")[0]
        (tmp_path / "folders" / first).mkdir(parents=True, exist_ok=True)
        (world / row["image"]).rename(tmp_path / "folders" / first / row["image"].split("/")[1])
    answer = aevlp(capsys, "train", tmp_path / "folders", "--out", tmp_path / "run", *small, "--observe", "given")
    assert answer.code == 0, answer.err
    assert "lower bound" in answer.out
    assert "estimated from the observed and the first pseudo-labels" in answer.err
    result = result_of(tmp_path / "run")
    assert result["mAP"] is None
    assert result["labels"] is None
    own = result["labels_on_val"]
    where = "val, the images that they were fitted on"
    said = f"macro F1 {own['macro_F1']:.2f} on {where}, estimated for {own['labels_per_image']:.2f} labels per image"
    assert f"{said} ({own['macro_F1_at_half']:.2f} at 0.5)" in answer.out
    assert json.loads((tmp_path / "run" / "thresholds.json").read_text())["basis"] == "estimated"
    assert result["val_labels"] == "incomplete"
    assert result["pseudo_labels"]["precision"] is None
    assert result["expected_positives"] > 1.2  # one observed label each, and what the teacher adds


def test_expected_positives_come_from_complete_validation_labels(capsys, world, small, tmp_path):
    aevlp(capsys, "train", world, "--out", tmp_path / "run", *small)
    rows = list(csv.DictReader((world / "labels.csv").open()))
    from aevlp.data.dataset import hold_out

    train = [row for row in rows if row["split"] == "train"]
    held = [len(train[i]["labels"].split(";")) for i in hold_out(len(train))[1]]
    assert result_of(tmp_path / "run")["expected_positives"] == pytest.approx(sum(held) / len(held))
    aevlp(capsys, "train", world, "--out", tmp_path / "set", *small, "--train.expected_positives", "2.5")
    assert result_of(tmp_path / "set")["expected_positives"] == 2.5


def test_eval_sees_what_training_saw_and_so_does_a_plain_pipeline(capsys, world, small, tmp_path):
    run = tmp_path / "run"
    aevlp(capsys, "train", world, "--out", run, *small)
    answer = aevlp(capsys, "eval", run, world, "--device", "cpu", "--probabilities", tmp_path / "found.csv")
    assert answer.code == 0, answer.err
    assert f"mAP {result_of(run)['mAP']:.2f}" in answer.out
    rows = list(csv.DictReader((tmp_path / "found.csv").open()))
    assert len(rows) == 16

    from transformers import pipeline

    classify = pipeline(
        "image-classification", model=str(run / "model"), function_to_apply="sigmoid", top_k=len(COLOURS), device="cpu"
    )
    for row in rows:
        found = {item["label"]: item["score"] for item in classify(str(world / row["image"]))}
        assert found == pytest.approx({name: float(row[name]) for name in COLOURS}, abs=1e-5)

    for split in ("val", "train"):
        assert aevlp(capsys, "eval", run, world, "--split", split).code == 0


def test_unreadable_images_stop_training_or_are_left_out(capsys, tmp_path, small):
    world = write_world(tmp_path / "world")
    (world / "images" / "003.png").write_text("not an image")
    message = refused(capsys, "train", world, "--out", tmp_path / "run", *small)
    assert "1 of 56 images cannot be read" in message
    assert "images/003.png" in message
    assert "--bad-images skip" in message
    assert not (tmp_path / "run").exists()
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *small, "--bad-images", "skip")
    assert answer.code == 0, answer.err
    assert "1 of 56 images cannot be read and are left out: images/003.png" in answer.err


@pytest.mark.parametrize("content", [b"", b"half of", b"\xff" * 5000])
def test_a_damaged_memory_of_image_files_is_made_again(capsys, tmp_path, small, content):
    """It lies in the cache, where nobody would look for what is wrong."""
    world = write_world(tmp_path / "world")
    (world / "images" / "003.png").write_text("not an image")
    words = ["train", world, "--out", tmp_path / "run", *small, "--store", tmp_path / "views"]
    refused(capsys, *words)
    (tmp_path / "views" / "files.sqlite").write_bytes(content)
    for _ in range(2):
        assert "1 of 56 images cannot be read" in refused(capsys, *words)
    assert (tmp_path / "views" / "files.sqlite").read_bytes().startswith(b"SQLite")


def test_images_of_every_mode_and_shape_train(capsys, tmp_path, small):
    world = write_world(tmp_path / "world")
    for number, mode in enumerate(["L", "P", "RGBA", "LA", "1", "I;16", "CMYK"]):
        path = world / "images" / f"{number:03d}.png"
        image = Image.open(path).convert("L" if mode == "I;16" else mode)
        path.unlink()
        image.convert(mode).save(path, format="JPEG" if mode == "CMYK" else "PNG")
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *small)
    assert answer.code == 0, answer.err


def test_the_model_kept_is_that_of_the_best_epoch(capsys, monkeypatch, world, plain, tmp_path):
    """Validation says that the first epoch was the best, whatever came later: one epoch alone leaves the same model."""
    from aevlp.training.evaluate import RankingMetrics

    said = iter([50.0, 49.0, 49.5, 50.0])
    monkeypatch.setattr("aevlp.training.loop.evaluate_split", lambda *_: RankingMetrics(next(said), 0.0, {}))
    # A schedule that stretches over the epochs would make the first epoch of three another than that of one.
    flat = ["--method", "an"]
    assert run_ok(capsys, "train", world, "--out", tmp_path / "three", *plain, *flat)["best_epoch"] == 1
    said = iter([50.0, 50.0])
    run_ok(capsys, "train", world, "--out", tmp_path / "one", *plain, *flat, "--epochs", "1")
    assert weights_of(tmp_path / "three") == weights_of(tmp_path / "one")


def run_ok(capsys, *words) -> dict:
    answer = aevlp(capsys, *words)
    assert answer.code == 0, answer.err
    return result_of(words[words.index("--out") + 1])


def test_head_and_body_learn_at_their_own_rates(capsys, world, plain, tmp_path, backbone):
    from safetensors.torch import load_file

    words = ["train", world, *plain, "--method", "an", "--epochs", "1"]
    run_ok(capsys, *words, "--out", tmp_path / "head", "--train.learning_rate", "0")
    run_ok(capsys, *words, "--out", tmp_path / "body", "--train.head_learning_rate", "0")
    before = load_file(backbone / "model.safetensors")
    head, body = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("head", "body"))
    weights = [name for name in before if name.endswith("weight") and "classifier" not in name]
    assert all((head[name] == before[name]).all() for name in weights)
    assert all((body[name] != before[name]).any() for name in weights)
    assert (head["classifier.1.weight"] != body["classifier.1.weight"]).any()


def test_rows_without_labels_train(capsys, tmp_path, small):
    world = write_world(tmp_path / "world")
    lines = (world / "labels.csv").read_text().splitlines()
    lines[3:6] = [f"{line.split(',')[0]},,train" for line in lines[3:6]]
    (world / "labels.csv").write_text("\n".join(lines) + "\n")
    run_ok(capsys, "train", world, "--out", tmp_path / "run", *small, "--observe", "given")


def test_a_file_that_can_be_read_again_is_used_again(capsys, tmp_path, plain, monkeypatch):
    """What went wrong once (too many open files, say) is not held against an image for ever."""
    world = write_world(tmp_path / "world")
    with monkeypatch.context() as patch:
        patch.setattr("aevlp.data.load.bad_images", lambda paths, **_: {3: "too many open files"})
        assert "1 of 56" in refused(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", "an")
    run_ok(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", "an")


def test_a_set_is_decoded_for_readability_once(capsys, world, plain, tmp_path, monkeypatch):
    run_ok(capsys, "train", world, "--out", tmp_path / "one", *plain, "--method", "an", "--epochs", "1")
    looked: list[int] = []

    def look(paths, **_):
        looked.append(len(paths))
        return {}

    monkeypatch.setattr("aevlp.data.load.bad_images", look)
    run_ok(capsys, "train", world, "--out", tmp_path / "two", *plain, "--method", "an", "--epochs", "1")
    assert looked == [0]


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(capsys, world, plain, tmp_path, monkeypatch):
    monkeypatch.setenv("AEVLP_CACHE", "/proc/nowhere")
    run_ok(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", "an", "--epochs", "1")
    assert aevlp(capsys, "eval", tmp_path / "run", world).code == 0


def test_dangling_links_and_odd_names_are_no_trouble(capsys, tmp_path, small):
    """File names in Latin-1, with braces; a prompt with a stray brace."""
    for row in csv.DictReader((write_world(tmp_path / "folders source", train=60, test=0) / "labels.csv").open()):
        first = row["labels"].split(";")[0]
        (tmp_path / "folders" / first).mkdir(parents=True, exist_ok=True)
        (tmp_path / "folders source" / row["image"]).rename(tmp_path / "folders" / first / f"caf\udce9 {{}} {row['image'][7:]}")
    some = next((tmp_path / "folders" / "red").iterdir())
    (some.parent / "link.png").symlink_to("gone.png")
    words = ["train", tmp_path / "folders", "--out", tmp_path / "run", *small, "--observe", "given"]
    assert "link.png" in refused(capsys, *words)
    run_ok(capsys, *words, "--bad-images", "skip", "--teacher.prompt", "a {} in 100% {light")
    assert (
        aevlp(
            capsys,
            "eval",
            tmp_path / "run",
            tmp_path / "folders",
            "--split",
            "val",
            "--bad-images",
            "skip",
            "--probabilities",
            tmp_path / "found.csv",
        ).code
        == 0
    )


def test_eval_computes_where_it_is_told_not_where_the_model_was_trained(capsys, world, plain, tmp_path):
    run = tmp_path / "run"
    run_ok(capsys, "train", world, "--out", run, *plain, "--method", "an", "--epochs", "1")
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("device: cpu", "device: cuda"))
    assert "device: cuda" in (run / "config.yaml").read_text()
    assert aevlp(capsys, "eval", run, world).code == 0


def test_out_may_be_a_link_and_what_a_killed_process_left_is_no_run(capsys, world, plain, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / ".config.yaml.77.part").write_text("half of it")
    words = ["train", world, "--out", tmp_path / "run", *plain, "--method", "an", "--epochs", "1"]
    run_ok(capsys, *words)
    run_ok(capsys, *words, "--overwrite")
    assert (tmp_path / "run").is_symlink()
    assert not list((tmp_path / "disk").glob(".*"))


def test_two_processes_do_not_write_into_one_run(capsys, world, small, tmp_path):
    run = RunFolder(tmp_path / "run")
    assert aevlp(capsys, "train", world, "--out", run.path, *small, "--epochs", "1").code == 0
    held = run.claim()
    before = weights_of(run.path)
    message = refused(capsys, "train", world, "--out", run.path, *small, "--overwrite")
    assert message.startswith(f"{run.path}: another process is training into it")
    assert weights_of(run.path) == before
    held.release()
    assert aevlp(capsys, "train", world, "--out", run.path, *small, "--overwrite", "--epochs", "1").code == 0
    assert not run.lock.exists()
