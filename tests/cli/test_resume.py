import errno
import json
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from aevlp.training import loop
from tests.cli.killed import MOMENTS
from tests.cli.run import aevlp, refused, start, weights_of
from tests.colours import write_world


@pytest.fixture(scope="module")
def uninterrupted(world, small, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "uninterrupted"
    words = ["train", world, "--out", run, *small, "--store", run.parent / "views"]
    done = subprocess.run([sys.executable, "-m", "aevlp", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return run


def assert_same(run: Path, other: Path) -> None:
    assert weights_of(run) == weights_of(other)
    results = [json.loads((folder / "result.json").read_text()) for folder in (run, other)]
    for result in results:
        del result["images_per_second"]
    assert results[0] == results[1]
    lines = [[json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()] for folder in (run, other)]
    assert [line["loss"] for line in lines[0]] == [line["loss"] for line in lines[1]]
    assert [line["pseudo_labels"] for line in lines[0]] == [line["pseudo_labels"] for line in lines[1]]


OFTEN = ("scoring", "batch", "result")  # moments of kills that every run of the tests tries


@pytest.mark.parametrize(
    "moment", [*OFTEN, *(pytest.param(name, marks=pytest.mark.soak) for name in MOMENTS if name not in OFTEN)]
)
def test_a_killed_run_resumes_bit_for_bit(capsys, world, small, tmp_path, uninterrupted, moment):
    words = ["train", str(world), "--out", str(tmp_path / "run"), *small]
    killed = subprocess.run([sys.executable, "-m", "tests.cli.killed", moment, *words], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "run" / "result.json").exists()
    answer = aevlp(capsys, *words, "--resume")
    assert answer.code == 0, answer.err
    assert_same(tmp_path / "run", uninterrupted)
    assert not list(tmp_path.rglob("*.part"))


STATEFUL = {
    "role": ["--estimates.rate", "100"],
    "em-apl": ["--apl.warmup", "1", "--loss.beta", "0.9"],
    "ll-cp": ["--ll-cp.delta", "0.05"],
    "mime": ["--confident.warmup", "1", "--confident.threshold", "0.5"],
    "smile": ["--enhancer.learning_rate", "0.01"],
}
"""Methods that carry more from epoch to epoch than weights, with options that make what they carry count."""


@pytest.mark.parametrize(
    "method", ["em-apl", *(pytest.param(name, marks=pytest.mark.soak) for name in STATEFUL if name != "em-apl")]
)
def test_what_a_method_carries_from_epoch_to_epoch_resumes_bit_for_bit(capsys, world, plain, tmp_path, method):
    words = [*plain, "--method", method, *STATEFUL[method], "--train.patience", "null", "--train.max_drop", "null"]
    assert aevlp(capsys, "train", world, "--out", tmp_path / "whole", *words).code == 0
    parted = ["train", str(world), "--out", str(tmp_path / "run"), *words]
    killed = subprocess.run([sys.executable, "-m", "tests.cli.killed", "third_epoch", *parted], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    answer = aevlp(capsys, *parted, "--resume")
    assert answer.code == 0, answer.err
    assert "resumed after epoch 2" in answer.err
    assert_same(tmp_path / "run", tmp_path / "whole")
    one, other = (
        torch.load(tmp_path / name / "checkpoints" / "last.pt", weights_only=True)["source"] for name in ("run", "whole")
    )
    assert same(one, other)


def same(one, other) -> bool:
    """Whether two checkpoints hold the same, to the last bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.fixture(scope="module")
def killed(world, small, tmp_path_factory) -> Path:
    """A folder with a run that was killed in its third epoch, and its store."""
    folder = tmp_path_factory.mktemp("killed")
    words = ["train", world, "--out", folder / "run", *small, "--store", folder / "views"]
    command = [sys.executable, "-m", "tests.cli.killed", "third_epoch", *map(str, words)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == -signal.SIGKILL
    return folder


@pytest.fixture
def parted(world, small, tmp_path, killed):
    """The command of a run that was killed in its third epoch, with the checkpoints of two."""
    shutil.copytree(killed / "run", tmp_path / "run")
    return ["train", str(world), "--out", str(tmp_path / "run"), *small, "--store", str(killed / "views")]


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_damaged_checkpoint_is_left_for_the_one_before_with_the_same_end(capsys, tmp_path, parted, uninterrupted):
    checkpoints = tmp_path / "run" / "checkpoints"
    flip_a_bit(checkpoints / "last.pt")
    answer = aevlp(capsys, *parted, "--resume")
    assert answer.code == 0, answer.err
    assert f"{checkpoints}: last.pt is damaged (its checksum differs); going on from the epoch before" in answer.err
    assert "resumed after epoch 1" in answer.err
    assert_same(tmp_path / "run", uninterrupted)


def test_damaged_checkpoints_are_one_line_and_the_run_stays(capsys, tmp_path, parted):
    checkpoints = tmp_path / "run" / "checkpoints"
    for name in ("last.pt", "previous.pt"):
        flip_a_bit(checkpoints / name)
    before = {file: file.read_bytes() for file in checkpoints.iterdir()}
    assert "last.pt is damaged (its checksum differs) and previous.pt is" in refused(capsys, *parted, "--resume")
    assert {file: file.read_bytes() for file in checkpoints.iterdir()} == before


def changed(state, key, value):
    return {**state, key: value}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda state: {}, "is not the checkpoint of a training (data is missing)"),
        (lambda state: {key: value for key, value in state.items() if key != "optimizer"}, "(optimizer is missing)"),
        (lambda state: changed(state, "data", 5), "(data must be a text, not 5)"),
        (lambda state: changed(state, "model", {}), "does not fit this training (RuntimeError: "),
        (lambda state: changed(state, "model", None), "does not fit this training (TypeError: "),
        (
            lambda state: changed(state, "optimizer", {"state": {}, "param_groups": []}),
            "does not fit this training (ValueError: ",
        ),
        (lambda state: changed(state, "source", 5), "does not fit this training ("),
        (lambda state: changed(state, "history", None), "(history must be a list, not None)"),
        (lambda state: changed(state, "history", [{"epoch": 1}]), "(history.0.images_per_second is missing)"),
    ],
)
def test_a_checkpoint_of_something_else_is_one_line(capsys, tmp_path, parted, change, says):
    file = tmp_path / "run" / "checkpoints" / "last.pt"
    torch.save(change(torch.load(file, weights_only=True)), file)
    assert says in refused(capsys, *parted, "--resume")


def test_a_finished_run_is_not_trained_again(capsys, world, uninterrupted):
    before = weights_of(uninterrupted)
    answer = aevlp(capsys, "train", world, "--out", uninterrupted, "--resume")
    assert answer.code == 0
    assert "finished" in answer.err
    assert "epoch 1" not in answer.err
    assert weights_of(uninterrupted) == before
    # On a machine whose GPU is too slow with them, it may go on without.
    assert aevlp(capsys, "train", world, "--out", uninterrupted, "--resume", "--deterministic", "false").code == 0


def test_resume_needs_no_options_again(capsys, world, small, tmp_path, uninterrupted):
    words = ["train", str(world), "--out", str(tmp_path / "run")]
    killed = [sys.executable, "-m", "tests.cli.killed", "batch", *words, *small]
    assert subprocess.run(killed, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert aevlp(capsys, *words, "--resume").code == 0
    assert_same(tmp_path / "run", uninterrupted)


def test_resume_with_another_configuration_says_what_differs(capsys, world, small, uninterrupted):
    words = ["train", world, "--out", uninterrupted, *small, "--resume"]
    message = refused(capsys, *words, "--epochs", "5", "--damp.top_k", "2")
    assert "train.epochs was 3 and is now 5" in message
    assert "damp.top_k was 3 and is now 2" in message
    said = refused(capsys, "train", world, "--out", uninterrupted, "--resume", "--seed", "4")
    assert ": seed was 0 and is now 4; give the same options, or choose another --out" in said
    message = refused(capsys, "train", world, "--out", uninterrupted, "--resume", "--method", "gr")
    assert "method was consensus and is now gr" in message


def test_resume_on_other_images_is_refused(capsys, world, small, tmp_path):
    words = ["--out", str(tmp_path / "run"), *small]
    killed = [sys.executable, "-m", "tests.cli.killed", "before_checkpoint", "train", str(world), *words]
    assert subprocess.run(killed, capture_output=True, check=False).returncode == -signal.SIGKILL
    other = write_world(tmp_path / "other", seed=1)
    assert "other images, labels or classes" in refused(capsys, "train", other, *words, "--resume")


def test_processes_that_see_different_checkpoints_are_refused(capsys, world, small, tmp_path, monkeypatch):
    monkeypatch.setattr("aevlp.training.state.gather_object", lambda found: [*found, 3])
    run = tmp_path / "run"
    said = refused(capsys, "train", world, "--out", run, *small)
    assert said.startswith(f"{run}: some processes found the checkpoint of epoch 3 there, and others that of epoch 0; put it on")


def test_resume_of_nothing_is_refused(capsys, world, small, tmp_path):
    assert "not a run folder" in refused(capsys, "train", world, "--out", tmp_path / "none", *small, "--resume")


def test_resume_auto_starts_a_run_and_goes_on_with_it(capsys, world, small, tmp_path, uninterrupted):
    words = ["train", str(world), "--out", str(tmp_path / "run"), *small, "--resume", "auto"]
    killed = subprocess.run([sys.executable, "-m", "tests.cli.killed", "batch", *words], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    answer = aevlp(capsys, *words)
    assert answer.code == 0, answer.err
    assert "resumed after epoch 1" in answer.err
    assert_same(tmp_path / "run", uninterrupted)
    assert "this run is finished" in aevlp(capsys, *words).err


def test_resume_auto_refuses_another_run(capsys, world, small, tmp_path, uninterrupted):
    words = ["train", world, "--out", uninterrupted, "--resume=auto", *small]
    assert ": train.epochs was 3 and is now 4; give the same" in refused(capsys, *words, "--epochs", "4")
    assert "was started with another configuration" in refused(capsys, "train", "--resume", "auto", world, "--out", uninterrupted)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    said = refused(capsys, "train", world, "--resume", "auto", "--out", tmp_path / "other", *small)
    assert said == f"--out {tmp_path / 'other'}: exists and is not a run folder; choose another place, or move it away"


def test_a_finished_run_is_not_resumed_on_other_images(capsys, small, tmp_path, uninterrupted):
    other = write_world(tmp_path / "other", seed=1)
    said = refused(capsys, "train", other, "--out", uninterrupted, *small, "--resume")
    assert said == f"--resume: {uninterrupted} was started on other images, labels or classes; give the same DATA"


def test_resume_may_stand_before_the_data(capsys, world, uninterrupted):
    assert "this run is finished" in aevlp(capsys, "train", "--resume", world, "--out", uninterrupted).err
    assert "--resume: invalid choice: 'often'" in refused(capsys, "train", world, "--out", uninterrupted, "--resume=often")


def test_an_interrupted_training_says_how_to_go_on(world, small, tmp_path):
    run = tmp_path / "run"
    words = ["train", world, "--out", run, *small, "--epochs", "100000", "--train.patience", "null", "--train.max_drop", "null"]
    training = start(*words, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    while not (run / "metrics.jsonl").exists():
        assert training.poll() is None, training.communicate()
        time.sleep(0.1)
    training.send_signal(signal.SIGINT)
    _, err = training.communicate()
    assert training.returncode == 130, err
    assert "Traceback" not in err
    assert err.splitlines()[-1] == f"aevlp: interrupted; go on with: aevlp train {world} --out {run} --resume"


@pytest.mark.parametrize(("command", "advice"), [("score", "; the same command again goes on"), ("check", "")])
def test_an_interrupted_command_says_whether_it_goes_on(capsys, monkeypatch, command, advice):
    def interrupt(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr("aevlp.cli.main.command", lambda name: interrupt)
    answer = aevlp(capsys, command)
    assert (answer.code, answer.err) == (130, f"aevlp: interrupted{advice}\n")


@contextmanager
def files_of_at_most(size: int):
    """A disk that is full after `size` bytes of any file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_store_valid(capsys, world, small, tmp_path):
    with files_of_at_most(4000):
        message = refused(capsys, "score", world, *small)
    assert "the disk is full" in message
    assert ".npy" in message
    assert not list((tmp_path / "cache").rglob("*.npy"))
    assert not list((tmp_path / "cache").rglob("*.part"))
    assert aevlp(capsys, "score", world, *small).code == 0


class FullDisk:
    """A TensorBoard that writes in a thread, on a disk that has been full for a while."""

    def __init__(self, folder):
        def write():
            raise OSError(errno.ENOSPC, "No space left on device")

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        write()


def test_a_full_disk_gives_no_traceback_of_a_log_or_of_tensorboard(capsys, world, plain, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter", FullDisk)
    with monkeypatch.context() as patch:
        patch.setattr("logging.FileHandler._open", lambda self: Path("/dev/full").open("w"))  # noqa: SIM115
        answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", "an")
    assert answer.code == 0, answer.err
    assert "Traceback" not in answer.err


def test_a_full_disk_under_the_output_is_said_in_one_line(capsys, monkeypatch):
    def fail(argv):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("aevlp.cli.main.command", lambda name: fail)
    assert refused(capsys, "predict").startswith("the output: the disk is full (No space left on device); free some space")


@pytest.mark.parametrize("remove", [shutil.rmtree, lambda path: path.rename(path.with_name("moved"))])
def test_a_run_folder_that_goes_away_is_not_made_again(capsys, world, small, tmp_path, monkeypatch, remove):
    run, save = tmp_path / "run", loop.save

    def save_late(folder, state, seconds):
        if state.epoch == 2:
            remove(run)
        save(folder, state, seconds)

    monkeypatch.setattr(loop, "save", save_late)
    said = refused(capsys, "train", world, "--out", run, *small)
    assert said == f"{run}: removed or moved while it was in use (config.yaml is gone); put it back, or start again"
    assert not [path for path in run.rglob("*") if path.is_file()]


def test_a_full_disk_leaves_a_run_that_resumes(capsys, world, small, tmp_path, uninterrupted):
    words = ["train", world, "--out", tmp_path / "run", *small]
    with files_of_at_most(1_000_000):
        message = refused(capsys, *words)
    assert "the disk is full" in message
    assert "last.pt" in message
    assert not (tmp_path / "run" / "result.json").exists()
    assert not list((tmp_path / "run").rglob("*.part"))
    assert aevlp(capsys, *words, "--resume").code == 0
    assert_same(tmp_path / "run", uninterrupted)
