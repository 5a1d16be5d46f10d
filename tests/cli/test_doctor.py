"""`aevlp doctor` as a user types it."""

import json
import tempfile

import pytest

from aevlp.experiments.doctor import run
from tests.cli.run import aevlp, refused

CHILD = """
import json, os, signal, sys, time
function, argument, device, folder = sys.argv[1:]
with open({log!r}, "a") as log:
    print(json.dumps([function, argument, device, os.environ.get("CUDA_VISIBLE_DEVICES")]), file=log)
if function == "survey":
    with open(folder + "/survey.json", "w") as file:
        json.dump({{"devices": {devices!r}, "threads": 2}}, file)
if argument == "bf16":
    os.kill(os.getpid(), signal.SIGILL)
if argument == "int8":
    sys.exit("no such library")
if function == "scoring_speed":
    time.sleep(60)
with open(folder + "/answer.json", "w") as file:
    json.dump({{"passed": function != "train_begin", "seen": "saw | " + function}}, file)
"""


@pytest.fixture
def pretended(monkeypatch, tmp_path):
    """A function that makes every step a pretended one on a machine with these devices; it returns the file of their calls."""

    def pretend(*devices):
        log = tmp_path / "calls"
        script = CHILD.format(log=str(log), devices={name: f"a {name}" for name in devices})
        monkeypatch.setattr(run, "CHILD", ("-c", script))
        monkeypatch.setattr(run, "LONGEST", 5)
        return log

    return pretend


def rows_of(out: str) -> dict[tuple[str, str], tuple[str, str]]:
    """(device, check) -> (result, seen)."""
    found = {}
    for line in out.splitlines()[2:]:
        if line.startswith("| "):
            device, check, result, seen = line.removeprefix("| ").removesuffix(" |").replace(r"\|", "/").split(" | ")
            found[device, check] = result.strip(), seen
    return found


def test_a_sound_machine_passes_and_nothing_is_left_behind(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    answer = aevlp(capsys, "doctor", "--only", "train-fp32", "--device", "cpu")
    assert answer.code == 0, answer.out
    rows = rows_of(answer.out)
    assert list(rows) == [("machine", "versions"), ("cpu", "device"), ("cpu", "train-fp32")]
    assert "torch" in rows["machine", "versions"][1]
    assert rows["cpu", "train-fp32"][0] == "passed"
    assert rows["cpu", "train-fp32"][1].startswith("loss 0.")
    assert answer.out.endswith("all 1 checks passed\n")
    assert not list((tmp_path / "here").iterdir())
    assert not list((tmp_path / "temporary").iterdir())
    assert not (tmp_path / "cache").exists()


def test_a_crash_is_a_row_and_not_the_end(capsys, pretended):
    pretended("cpu")
    answer = aevlp(capsys, "doctor")
    rows = rows_of(answer.out)
    assert answer.code == 1
    assert rows["cpu", "train-fp32"] == ("passed", "saw / train")
    assert rows["cpu", "train-bf16"] == ("failed", "illegal instruction")
    assert rows["cpu", "teacher-int8"] == ("failed", "ended with exit code 1: no such library")
    assert rows["cpu", "resume"] == ("failed", "saw / train_begin")  # the step before the last
    assert rows["cpu", "scoring-speed"] == ("failed", "no answer after 5 seconds")
    assert rows["cpu", "training-speed"][0] == "passed"
    assert ("cpu", "train-fp16") not in rows
    assert answer.out.endswith("5 of 9 checks failed\n")


def test_each_gpu_is_checked_by_itself_and_compared_with_the_cpu(capsys, pretended, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    log = pretended("cpu", "cuda:0", "cuda:1")
    answer = aevlp(capsys, "doctor", "--only", "train-fp16,pinned-memory", "--device", "cuda")
    assert answer.code == 0, answer.out
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    assert [call[:3] for call in calls] == [
        ["survey", "", "cpu"],
        ["train", "fp32", "cpu"],
        *(step for gpu in ("cuda:0", "cuda:1") for step in (["train", "fp16", gpu], ["pin", "", gpu])),
    ]
    assert [call[3] for call in calls[2:]] == ["4", "4", "7", "7"]
    assert [name for name, check in rows_of(answer.out) if check == "device"] == ["cuda:0", "cuda:1"]


def test_what_a_check_compares_with_is_computed_first(capsys, pretended):
    log = pretended("cpu")
    aevlp(capsys, "doctor", "--only", "repeat,teacher-int8", "--device", "cpu")
    calls = [json.loads(line)[:2] for line in log.read_text().splitlines()]
    assert calls[:3] == [["survey", ""], ["embed", "fp32"], ["embed", "int8"]]
    assert calls[3:] == [["train_whole", "whole"], ["train_again", "repeated"]]


def test_a_machine_on_which_torch_does_not_start_gets_its_row(capsys, monkeypatch):
    monkeypatch.setattr(run, "CHILD", ("-c", "import torch_that_is_not_there"))
    answer = aevlp(capsys, "doctor")
    assert answer.code == 1
    result, seen = rows_of(answer.out)["machine", "versions"]
    assert result == "failed"
    assert seen.endswith("No module named 'torch_that_is_not_there'")


def test_the_checks_are_listed(capsys):
    listed = aevlp(capsys, "doctor", "--list").out
    assert "train-fp16" in listed
    assert "GradScaler (cuda, mps)" in listed


def test_wrong_words_are_refused(capsys, pretended):
    log = pretended("cpu")
    message = refused(capsys, "doctor", "--only", "resume,repeet")
    assert message.startswith("--only repeet: no such check (did you mean 'repeat'?); known are train-fp32,")
    assert "unknown option --precision" in refused(capsys, "doctor", "--precision", "bf16")
    assert not log.exists()
    assert refused(capsys, "doctor", "--device", "cuda") == (
        "--device cuda: this machine has none that torch can use; use --device auto"
    )
