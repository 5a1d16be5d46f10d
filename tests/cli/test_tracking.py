"""`--track`: what the trackers' own readers find after a training."""

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from mlflow.tracking import MlflowClient

from aevlp.config.trackers import TRACKERS, tracker_names
from tests.cli.run import aevlp, refused, result_of, start


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory) -> Path:
    """A store of MLflow with nothing in it; making one takes seconds."""
    file = tmp_path_factory.mktemp("mlflow") / "empty.db"
    MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture
def server(tmp_path, monkeypatch, empty_store) -> Iterator[str]:
    """A store of MLflow in a file, which tests read back with MLflow's own client."""
    address = f"sqlite:///{shutil.copy(empty_store, tmp_path / 'mlflow.db')}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    yield address
    while mlflow.active_run() is not None:
        mlflow.end_run()


def runs_of(server: str) -> list[mlflow.entities.Run]:
    client = MlflowClient(server)
    experiments = [experiment.experiment_id for experiment in client.search_experiments(filter_string="name = 'aevlp'")]
    return client.search_runs(experiments, order_by=["start_time ASC"])


def artefacts_of(server: str, run_id: str) -> set[str]:
    client = MlflowClient(server)
    top = client.list_artifacts(run_id)
    return {file.path for entry in top for file in ([entry] if not entry.is_dir else client.list_artifacts(run_id, entry.path))}


def stop_after(epoch: int, monkeypatch) -> None:
    from aevlp.training import loop

    save = loop.save

    def save_and_stop(folder, state, seconds):
        save(folder, state, seconds)
        if state.epoch == epoch:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save", save_and_stop)


def test_mlflow_has_the_options_the_epochs_the_result_and_the_files(capsys, world, small, tmp_path, server):
    run = tmp_path / "first"
    answer = aevlp(capsys, "train", world, "--out", run, *small, "--report", "true", "--track", "mlflow")
    assert answer.code == 0, answer.err
    for noise in ("mlflow", "INFO", "View run", "experiment"):
        assert noise not in (answer.err + answer.out).replace(str(tmp_path), "")
    (found,) = runs_of(server)
    assert (found.info.run_name, found.info.status) == ("first", "FINISHED")
    assert found.data.params["method"] == "consensus"
    assert found.data.params["damp.temperature"] == "0.1"
    assert found.data.params["train.epochs"] == "3"
    assert found.data.params["run"] == str(run)
    result = result_of(run)
    assert found.data.metrics["test/mAP"] == pytest.approx(result["mAP"])
    assert found.data.metrics["test/macro_F1"] == pytest.approx(result["labels"]["macro_F1"])
    assert found.data.metrics["best/epoch"] == result["best_epoch"]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for key, expected in {
        "loss": [line["loss"] for line in lines],
        "val_mAP": [line["val_mAP"] for line in lines],
        "pseudo_labels/recall": [line["pseudo_labels"]["recall"] for line in lines],
    }.items():
        history = MlflowClient(server).get_metric_history(found.info.run_id, key)
        assert [point.step for point in history] == [line["epoch"] for line in lines]
        assert [point.value for point in history] == pytest.approx(expected)
    files = artefacts_of(server, found.info.run_id)
    assert {"report.html", "model/config.json", "model/model.safetensors", "model/README.md", "model/thresholds.json"} <= files
    assert not (run / "tensorboard").exists()


def test_a_resumed_run_goes_on_in_the_same_run_of_mlflow(capsys, world, plain, tmp_path, server, monkeypatch):
    words = ["train", world, "--out", tmp_path / "run"]
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        assert aevlp(capsys, *words, *plain, "--method", "an", "--track", "mlflow").code == 130
    (stopped,) = runs_of(server)
    assert stopped.info.status == "FAILED"
    answer = aevlp(capsys, *words, "--resume", "--train.workers", "2")
    assert answer.code == 0, answer.err
    assert "warning" not in answer.err
    (found,) = runs_of(server)
    assert (found.info.run_id, found.info.status) == (stopped.info.run_id, "FINISHED")
    steps = [point.step for point in MlflowClient(server).get_metric_history(found.info.run_id, "loss")]
    assert steps == [1, 3]  # the second was saved, and the process ended before it was written here
    assert found.data.metrics["test/mAP"] == pytest.approx(result_of(tmp_path / "run")["mAP"])


@pytest.mark.soak
def test_a_sweep_tracks_each_run_under_its_name(capsys, world, plain, tmp_path, server):
    words = ["--methods", "an,gr", "--track", "mlflow,tensorboard"]
    answer = aevlp(capsys, "compare", world, "--out", tmp_path / "sweep", *plain, *words)
    assert answer.code == 0, answer.err
    assert sorted(run.info.run_name for run in runs_of(server)) == ["an-0", "gr-0"]
    assert all((tmp_path / "sweep" / name / "tensorboard").is_dir() for name in ("an-0", "gr-0"))
    assert not (tmp_path / "sweep" / "an-0" / "wandb").exists()


@pytest.mark.parametrize("name", ["mlflow", "tensorboard"])
def test_a_tracker_that_fails_in_the_middle_does_not_end_the_training(capsys, world, plain, tmp_path, server, monkeypatch, name):
    kind = LOGGER_TYPE_TO_CLASS[name]
    log = kind.log

    def fail_late(self, values, step=None, **others):
        if step == 2:
            raise ConnectionError("the server is gone\nand more")
        log(self, values, step=step, **others)

    monkeypatch.setattr(kind, "log", fail_late)
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", "an", "--track", name)
    assert answer.code == 0, answer.err
    assert result_of(tmp_path / "run")["epochs"] == 3
    (line,) = [line for line in answer.err.splitlines() if "warning" in line]
    assert line == (
        f"warning: --track {name}: nothing more is written there (ConnectionError: the server is gone); the training goes on"
    )


@pytest.mark.soak
def test_a_server_that_cannot_be_reached_is_one_warning(capsys, world, plain, tmp_path, server, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", "an", "--track", "mlflow")
    assert answer.code == 0, answer.err
    assert [line[:25] for line in answer.err.splitlines() if "mlflow" in line] == ["warning: --track mlflow: "]
    assert "Traceback" not in answer.err


@pytest.mark.soak
def test_two_processes_are_one_run(world, plain, tmp_path, server):
    words = ["train", world, "--out", tmp_path / "run", *plain, "--method", "an", "--track", "mlflow"]
    process = start(*words, processes=2)
    _, err = process.communicate()
    assert process.returncode == 0, err
    (found,) = runs_of(server)
    assert len(MlflowClient(server).get_metric_history(found.info.run_id, "loss")) == 3


def test_nothing_is_tracked_with_none(capsys, world, plain, tmp_path):
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", "an", "--track", "none")
    assert answer.code == 0, answer.err
    assert not (tmp_path / "run" / "tensorboard").exists()
    assert not (tmp_path / "run" / "trackers.json").exists()


def test_the_ids_of_runs_are_checked(capsys, world, plain, tmp_path, monkeypatch):
    words = ["train", world, "--out", tmp_path / "run"]
    with monkeypatch.context() as patch:
        stop_after(1, patch)
        aevlp(capsys, *words, *plain, "--method", "an")
    (tmp_path / "run" / "trackers.json").write_text('{"mlflow": 3}')
    said = refused(capsys, *words, "--resume")
    assert said.startswith(f"{tmp_path / 'run' / 'trackers.json'}: ")
    assert said.endswith("remove it, and the trackers begin new runs")


def test_unknown_and_absent_trackers_are_refused_before_anything_is_written(capsys, plain, tmp_path):
    for command in (["train"], ["train", "--dry-run"], ["compare"]):
        words = [*command, tmp_path / "no-such-set", "--out", tmp_path / "run", *plain]
        said = refused(capsys, *words, "--track", "tensorbord")
        assert said.startswith("--track tensorbord: no tracker 'tensorbord' (did you mean 'tensorboard'?); known are ")
        assert refused(capsys, *words, "--track", "comet_ml") == "--track comet_ml: it is not installed; pip install comet-ml"
    assert not (tmp_path / "run").exists()


def test_a_missing_package_of_the_extra_is_named_by_the_extra(capsys, plain, tmp_path, monkeypatch):
    monkeypatch.setitem(TRACKERS, "mlflow", ("no-such-package",))
    said = refused(capsys, "train", tmp_path, "--out", tmp_path / "run", *plain, "--track", "mlflow")
    assert said == "--track mlflow: it is not installed; pip install 'aevlp[tracking]'"


def test_a_wrong_tracker_in_a_recipe_is_named_with_its_line(capsys, tmp_path):
    (tmp_path / "mine.yaml").write_text("seed: 1\ntrack: mlfow\n")
    said = refused(capsys, "train", tmp_path, "--out", tmp_path / "run", "--recipe", tmp_path / "mine.yaml")
    assert said.startswith(f"{tmp_path / 'mine.yaml'}, line 2: track mlfow: no tracker 'mlfow' (did you mean 'mlflow'?)")


def test_the_trackers_are_those_of_accelerate():
    assert set(TRACKERS) == set(LOGGER_TYPE_TO_CLASS)
    assert {str(name) for name in get_available_trackers()} == {"tensorboard", "mlflow", "wandb"}
    assert tracker_names(None) == ["tensorboard"]


# W&B: in processes of their own, since it reads its environment once.


@pytest.fixture
def offline(tmp_path, monkeypatch) -> None:
    for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "HOME"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")


def records_of(file: Path) -> list:
    """The records of an offline run, read by the messages that W&B itself defines; the file is a log as LevelDB writes it."""
    from wandb.proto import wandb_internal_pb2

    content, position, part, found = file.read_bytes(), 7, b"", []
    while position + 7 <= len(content):
        if (rest := 32768 - position % 32768) < 7:
            position += rest
            continue
        size, kind = struct.unpack("<HB", content[position + 4 : position + 7])
        part += content[position + 7 : position + 7 + size]
        position += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            found.append(wandb_internal_pb2.Record.FromString(part))
            part = b""
    return found


@pytest.mark.soak
def test_wandb_writes_an_offline_run_that_can_be_sent_later(world, small, tmp_path, offline):
    run = tmp_path / "first"
    process = start("train", world, "--out", run, *small, "--report", "true", "--track", "wandb")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "wandb" not in (out + err).replace(str(tmp_path), "")
    (file,) = (run / "wandb").glob("offline-run-*/*.wandb")
    records = records_of(file)
    begun = next(record.run for record in records if record.HasField("run"))
    assert (begun.project, begun.display_name) == ("aevlp", "first")
    assert json.loads((run / "trackers.json").read_text()) == {"wandb": begun.run_id}
    options = {item.key: json.loads(item.value_json) for record in records for item in record.config.update}
    assert (options["method"], options["damp.temperature"]) == ("consensus", 0.1)
    history = [
        {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    result = result_of(run)
    assert [line["_step"] for line in history] == [1, 2, 3]
    assert history[-1]["test/mAP"] == pytest.approx(result["mAP"])
    assert all({"loss", "val_mAP", "pseudo_labels/recall"} <= set(line) for line in history)
    artefacts = {record.request.log_artifact.artifact.type for record in records if record.HasField("request")}
    artefacts |= {record.artifact.type for record in records if record.HasField("artifact")}
    assert {"model", "report"} <= artefacts
    listed = subprocess.run(
        [Path(sys.executable).parent / "wandb", "sync", "--dry-run", file.parent],
        capture_output=True,
        text=True,
        env={**os.environ, "WANDB_MODE": "online"},
        cwd=tmp_path,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    assert "Would sync 1 run" in listed.stdout + listed.stderr


def test_wandb_without_a_login_is_refused_at_once(tmp_path, offline, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    process = start("train", tmp_path / "no-such-set", "--out", tmp_path / "run", "--track", "wandb", stdin=subprocess.DEVNULL)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err == "aevlp: --track wandb: nobody is logged in; run wandb login, or set WANDB_MODE=offline to write files only\n"
    assert not (tmp_path / "run").exists()
