"""aevlp export, as a user types it."""

import importlib.util
import json
import sys

import pytest

from aevlp.cli import export as command
from tests.cli.run import aevlp, refused, start
from tests.inference.test_export import CLASSES, without_torch, write_run

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that tests may not write to."""
    return write_run(tmp_path_factory.mktemp("export") / "run")


def test_export_says_where_the_file_is_how_far_off_and_how_to_use_it(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run")
    process = start("export", run.path, cwd=tmp_path)
    out, err = process.communicate()
    assert process.returncode == 0, err
    # What the exporter has to say is not for the user.
    assert err.splitlines() == [f"exporting {run.model}", "comparing it with PyTorch"]
    first, *_, code = out.split("\n\n", 1)
    assert first.startswith(f"{run.path / 'model.onnx'}: 0.")
    assert "MB, at most " in first
    difference = float(first.split("at most ")[1].split(" from PyTorch's probabilities")[0])
    assert 0 <= difference <= 1e-4

    labels = without_torch(
        code.replace(json.dumps(str(run.path / "model.onnx")), '"model.onnx"'), run.path / "model.onnx", tmp_path
    )
    assert 0 < len(labels) <= len(CLASSES)


def test_out_and_format(capsys, run, tmp_path):
    answer = aevlp(capsys, "export", run.path, "--format", "onnx", "--out", tmp_path / "new" / "file.onnx")
    assert answer.code == 0
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["file.onnx"]
    assert str(tmp_path / "new" / "file.onnx") in answer.out


def refuse_work(monkeypatch):
    """Whatever is refused must be refused before anything heavy begins."""
    monkeypatch.setitem(sys.modules, "aevlp.inference.export", None)


def test_a_file_that_exists_is_refused_before_work_begins(capsys, run, tmp_path, monkeypatch):
    refuse_work(monkeypatch)
    for name in ("a.onnx", "b.onnx.data"):
        (tmp_path / name).write_text("mine")
        message = refused(capsys, "export", run.path, "--out", tmp_path / name.removesuffix(".data"))
        assert message == f"--out {tmp_path / name}: exists; remove it or choose another name"
        assert (tmp_path / name).read_text() == "mine"


def test_formats_and_names_that_there_are_not(capsys, run, tmp_path, monkeypatch):
    refuse_work(monkeypatch)
    message = refused(capsys, "export", run.path, "--format", "torchscript")
    assert message == "--format torchscript: no such format; known are onnx"
    assert "must end in .onnx" in refused(capsys, "export", run.path, "--out", tmp_path / "model.pt")


def test_runs_that_there_are_not(capsys, run, tmp_path):
    assert "not a run folder" in refused(capsys, "export", tmp_path)
    untrained = write_run(tmp_path / "run")
    untrained.result.write_text(json.dumps({"versions": {"aevlp": "99.0.0"}}))
    assert "made by aevlp 99.0.0, which is newer" in refused(capsys, "export", untrained.path)
    untrained.result.unlink()
    (untrained.model / "model.safetensors").unlink()
    assert "no trained model here" in refused(capsys, "export", untrained.path)
    assert not (untrained.path / "model.onnx").exists()


def test_thresholds_of_other_classes_are_refused(capsys, tmp_path):
    run = write_run(tmp_path / "run")
    content = json.loads(run.thresholds.read_text())
    content["classes"] = {name.upper(): value for name, value in content["classes"].items()}
    run.thresholds.write_text(json.dumps(content))
    assert "its classes are not the model's" in refused(capsys, "export", run.path)
    assert not (run.path / "model.onnx").exists()


def test_without_the_extra_one_line_says_what_to_install(capsys, run, tmp_path, monkeypatch):
    refuse_work(monkeypatch)
    monkeypatch.setattr(command, "find_spec", lambda name: None if name.startswith("onnxr") else importlib.util.find_spec(name))
    message = refused(capsys, "export", run.path, "--out", tmp_path / "model.onnx")
    assert message == "aevlp export needs onnxruntime; install what is missing with pip install 'aevlp[export]'"
