"""aevlp serve as a user starts and ends it."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from aevlp.cli.main import main
from tests.cli.run import aevlp, refused, start
from tests.inference.serve.talk import ask, send, send_paths
from tests.trained_runs import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory, world, plain):
    """A run that was really trained."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AEVLP_CACHE", str(folder / "cache"))
        main(["train", str(world), "--out", str(folder / "run"), *plain, "--method", "an"])
    return folder / "run"


@pytest.fixture(scope="module")
def url(run):
    """The address of a service that ends well when it is told to."""
    process = start("serve", run, "--port", 0, "--device", "cpu", "--max-megabytes", 1)
    try:
        assert process.stderr is not None
        told = process.stderr.readline()
        found = re.fullmatch(r"serving .* at (http://\S+) \(Ctrl-C ends it\)\n", told)
        assert found, told + process.stderr.read()
        yield found[1]
        process.terminate()
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("words", [[], ["--calibrated"]])
def test_it_says_what_predict_says(capsys, run, url, world, words):
    answer = aevlp(capsys, "predict", run, world / "images", "--format", "jsonl", "--device", "cpu", *words)
    expected = [json.loads(line) for line in answer.out.splitlines()]
    paths = sorted((world / "images").iterdir())
    found = [
        one
        for first in range(0, len(paths), 32)
        for one in send_paths(url, paths[first : first + 32], "?calibrated=true" if words else "").json["images"]
    ]
    assert [one["name"] for one in found] == [path.name for path in paths]
    for one, wanted in zip(found, expected, strict=True):
        assert one["labels"] == wanted["labels"]
        assert one["probabilities"] == pytest.approx(wanted["probabilities"], abs=1e-5)


def test_limits_and_figures_are_those_of_the_options_and_the_run(run, url):
    answer = send(url, [("large.png", bytes(1_000_001))])
    assert (answer.status, answer.json) == (413, {"detail": "large.png: has more than 1 MB; send it smaller"})
    about = ask(f"{url}/api/model").json
    result = json.loads((run / "result.json").read_text())
    assert (about["name"], about["method"]) == ("run", "an")
    assert about["figures"]["mAP"] == result["mAP"]
    assert f"mAP {result['mAP']:.1f} on its test images" in ask(url).body.decode()


def test_what_the_user_should_know_is_said_at_the_start(capsys, backbone, tmp_path, monkeypatch):
    model = write_run(tmp_path / "run", backbone, above=None) / "model"
    monkeypatch.setattr("aevlp.inference.serve.app.serve_until_stopped", lambda app, listener: None)
    answer = aevlp(capsys, "serve", model, "--port", 0, "--device", "cpu", "--host", "0.0.0.0")
    assert answer.code == 0
    first, second, third = answer.err.splitlines()
    assert first == f"{model} has no thresholds, so no labels are given: aevlp thresholds RUN DATA makes them"
    assert re.fullmatch(r"everyone who can reach http://0\.0\.0\.0:\d+ can use it: there is no password", second)
    assert third.startswith(f"serving {model} at http://0.0.0.0:")


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_who_is_told_to_end_while_the_model_is_loaded_has_not_failed(run, tmp_path, told):
    """The command loads torch when it already listens."""
    code = (
        "import os, signal, sys; from aevlp.cli.main import main\n"
        "class Told:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == 'torch': os.kill(os.getpid(), {int(told)})\n"
        "sys.meta_path.insert(0, Told()); main(sys.argv[1:])\n"
    )
    words = ["serve", run, "--port", 0, "--device", "cpu"]
    process = start(*words, program=["-c", code])
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


def test_a_proxy_may_keep_its_own_name(capsys, run, monkeypatch):
    seen = []
    monkeypatch.setattr("aevlp.inference.serve.app.make_app", lambda service, info, hosts, store: seen.append(hosts))
    monkeypatch.setattr("aevlp.inference.serve.app.serve_until_stopped", lambda app, listener: None)
    for words in ([], ["--public-host", "Labels.Example.org"]):
        assert aevlp(capsys, "serve", run, "--port", 0, "--device", "cpu", *words).code == 0
    assert seen[1] - seen[0] == {"labels.example.org"}


def test_a_port_in_use_is_refused(capsys, run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused(capsys, "serve", run, "--port", port)
    assert message == f"--port {port}: in use by another program; choose another, or 0 for any free one"


def test_training_and_merge_read_the_corrections(capsys, run, world, plain, tmp_path):
    data = shutil.copytree(world, tmp_path / "world")
    kept = data / "images" / "kept.sqlite"  # beside the images, whose names are then those of their files
    names = ["000.png", "001.png"]
    process = start("serve", run, "--port", 0, "--device", "cpu", "--answers", kept)
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == f"corrections go to {kept}\n"
        url = process.stderr.readline().split(" at ")[1].split()[0]
        body = {"corrections": [{"image": names[0], "present": ["red"]}, {"image": names[1], "absent": ["blue"]}]}
        said = ask(f"{url}/api/answers", "POST", json.dumps(body).encode(), {"Content-Type": "application/json"})
        assert (said.status, said.json) == (200, {"kept": 2})
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert aevlp(capsys, "merge", data, kept, "--out", tmp_path / "merged.jsonl").code == 0
    records = {record["image"].split("/")[-1]: record for record in map(json.loads, (tmp_path / "merged.jsonl").open())}
    assert "red" in records[names[0]]["accepted"]
    assert records[names[1]]["negatives"] == ["blue"]
    words = [*plain, "--method", "an", "--answers", kept, "--report", "false"]
    trained = aevlp(capsys, "train", data, "--out", tmp_path / "again", *words)
    assert trained.code == 0
    assert f"answers of people: 2, from {kept}\n" in trained.err
    assert json.loads((tmp_path / "again" / "result.json").read_text())["answers"]["accepted"] == 1


def test_a_file_of_answers_that_is_none_is_refused(capsys, run, tmp_path):
    (tmp_path / "notes.txt").write_text("these are no answers, but a text that is long enough to be taken for a database")
    message = refused(capsys, "serve", run, "--port", 0, "--device", "cpu", "--answers", tmp_path / "notes.txt")
    assert message.startswith(f"{tmp_path / 'notes.txt'}: cannot be used as a store of answers (file is not a database)")
    assert (tmp_path / "notes.txt").read_text().startswith("these are")
    message = refused(capsys, "serve", run, "--port", 0, "--device", "cpu", "--answers", tmp_path / "no" / "answers.sqlite")
    assert "cannot be used as a store of answers (unable to open database file)" in message


def test_a_model_of_features_is_refused(capsys, world, tmp_path):
    rng = np.random.default_rng(0)
    names = [f"images/{path.name}" for path in sorted((world / "images").iterdir())]
    np.savez(tmp_path / "own.npz", features=rng.normal(size=(len(names), 4)).astype(np.float32), images=np.array(names))
    words = ["--observe", "single", "--features", tmp_path / "own.npz", "--report", "false", "--epochs", "1", "--method", "an"]
    assert aevlp(capsys, "train", world, "--out", tmp_path / "run", *words, "--device", "cpu").code == 0
    message = refused(capsys, "serve", tmp_path / "run", "--port", 0, "--device", "cpu")
    assert message == f"{tmp_path / 'run'}: was trained on features and cannot look at images; serve a run on images"


def test_what_is_wrong_is_said_in_one_line(capsys, run, tmp_path):
    assert refused(capsys, "serve", tmp_path).startswith(f"{tmp_path}: not a run folder (no config.yaml)")
    assert refused(capsys, "serve", run, "--port", "70000") == "--port must be from 0 to 65535, not 70000"
    assert refused(capsys, "serve", run, "--workers", "0") == "--workers must be at least 1, not 0"
    assert refused(capsys, "serve", run, "--max-megabytes", "0") == "--max-megabytes must be at least 1, not 0"
    assert (
        refused(capsys, "serve", run, "--prot", "80") == "unknown option --prot (did you mean '--port'?); see aevlp serve --help"
    )
    assert refused(capsys, "serve", run, "--port", "0", "--host", "nowhere.invalid").startswith(
        "--host nowhere.invalid: no such address"
    )
    assert refused(capsys, "serve", run, "--port", "0", "--host", "203.0.113.1").startswith(
        "--host 203.0.113.1: cannot listen there ("
    )
    assert refused(capsys, "serve", run, "--port", "0", "--device", "cuda").startswith("--device cuda: this machine has none")


def test_without_the_extra_it_says_how_to_get_it_before_torch_is_loaded():
    code = (
        "import sys\n"
        "sys.modules['uvicorn'] = sys.modules['python_multipart'] = None\n"
        "from aevlp.cli.main import main\n"
        "try: main(['serve', 'nowhere'])\n"
        "except SystemExit as stop: print(stop.code, sorted({'torch', 'transformers', 'fastapi'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    wanted = "aevlp: aevlp serve needs uvicorn, python-multipart; install what is missing with pip install 'aevlp[serve]'\n"
    assert (done.stdout, done.stderr) == ("2 []\n", wanted)
