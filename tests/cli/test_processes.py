"""Several processes that work together."""

import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.cli.run import start
from tests.colours import write_world


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A transformer without batch statistics: what it learns must not depend on how a batch is shared."""
    from transformers import ViTConfig, ViTForImageClassification

    folder = tmp_path_factory.mktemp("vit")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, num_labels=2, **sizes)).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps({"size": {"height": 32, "width": 32}}))
    return folder


def test_two_processes_train_what_one_would(small, vit, tmp_path):
    """Of 36 training images in batches of 16 the last four are all in the first process's half."""
    world = write_world(tmp_path / "world", train=45)
    lines, results = {}, {}
    for processes in (1, 2):
        run = tmp_path / str(processes)
        words = ["train", world, "--out", run, *small, "--backbone", vit, "--store", tmp_path / f"views-{processes}"]
        # So slow that no process has scored all shards before the other begins, nor takes one before it needs it.
        words += ["--teacher", "tests.colours:slow_teacher", "--teacher.batch_size", "1"]
        process = start(*words, processes=processes)
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert out.count("test mAP") == 1  # one voice
        lines[processes] = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        results[processes] = json.loads((run / "result.json").read_text())
    log = (tmp_path / "2" / "log.txt").read_text()
    shares = [int(n) for n in re.findall(r"process [12] of 2: computed (\d+) of \d+, [1-9]\d* teacher passes", log)]
    assert sum(shares) == 3 * 36 + 9, log  # no view of the training images twice, and one draw of the validation images
    assert min(shares) > 0, log
    assert log.count("epoch 1 of 3") == 1
    assert [line["loss"] for line in lines[2]] == pytest.approx([line["loss"] for line in lines[1]], rel=1e-4)
    assert [line["pseudo_labels"] for line in lines[2]] == [line["pseudo_labels"] for line in lines[1]]
    assert results[2]["mAP"] == pytest.approx(results[1]["mAP"], abs=0.5)


@pytest.mark.parametrize(
    "method", ["role", pytest.param("ll-cp", marks=pytest.mark.soak), pytest.param("smile", marks=pytest.mark.soak)]
)
def test_what_a_method_carries_is_the_same_in_every_process(plain, vit, tmp_path, method):
    """Also with a last batch that is all in the first process's half."""
    world = write_world(tmp_path / "world", train=45)
    found = []
    for processes in (1, 2):
        run = tmp_path / str(processes)
        words = ["train", world, "--out", run, *plain, "--backbone", vit, "--method", method]
        process = start(*words, processes=processes)
        _, err = process.communicate()
        assert process.returncode == 0, err
        state = torch.load(run / "checkpoints" / "last.pt", weights_only=True)["source"]
        found.append(([json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()], state))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-4)
    one, two = (state for _, state in found)
    for key, value in one.items():
        if isinstance(value, torch.Tensor):
            assert value.float().allclose(two[key].float(), atol=1e-3), key


@pytest.mark.soak
def test_nothing_of_their_talk_outlives_the_command(world, small, tmp_path):
    """A thread of the group that still lives when the interpreter ends can abort it, after all the work is done."""
    script = tmp_path / "command.py"
    script.write_text(
        "import sys, weakref\n"
        "import torch.distributed as processes\n"
        "from aevlp.cli.main import main\n"
        "groups, destroy = [], processes.destroy_process_group\n"
        "def destroy_seen():\n"
        "    groups.append(weakref.ref(processes.group.WORLD))\n"
        "    destroy()\n"
        "processes.destroy_process_group = destroy_seen\n"
        "main(sys.argv[1:])\n"
        "assert [group() for group in groups] == [None]\n"
    )
    run = tmp_path / "run"
    for words in (["train", world, "--out", run, *small], ["predict", run, world / "images", "--device", "cpu"]):
        process = start(*words, processes=2, program=[script])
        _, err = process.communicate()
        assert process.returncode == 0, err


def digest_of(run):
    return hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).hexdigest()


def until_there(file, process):
    while not file.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_after_kills_the_launcher_starts_them_again_and_the_weights_are_the_same(world, plain, tmp_path):
    """The processes of an attempt must not wait for those of the one before, whose addresses the launcher still has."""
    words = [world, *plain, "--method", "an", "--epochs", "150", "--train.patience", "null", "--train.max_drop", "null"]
    calm = start("train", *words, "--out", tmp_path / "calm", processes=2)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--max-restarts=3"]
    command = [*torchrun, "-m", "aevlp", "train", *words, "--out", tmp_path / "run", "--resume", "auto"]
    log = tmp_path / "run" / "log.txt"
    with (tmp_path / "err").open("w") as err:
        training = subprocess.Popen([str(word) for word in command], stdout=err, stderr=err)
    until_there(tmp_path / "run" / "checkpoints" / "last.pt", training)
    for attempt, rank in enumerate((1, 0), start=1):
        children = Path(f"/proc/{training.pid}/task/{training.pid}/children").read_text().split()
        os.kill(int(children[rank]), signal.SIGKILL)
        while log.read_text().count("resumed after") < attempt:
            assert training.poll() is None, (tmp_path / "err").read_text()
            time.sleep(0.05)
    assert training.wait() == 0, (tmp_path / "err").read_text()
    _, said = calm.communicate()
    assert calm.returncode == 0, said
    assert digest_of(tmp_path / "run") == digest_of(tmp_path / "calm")


def test_who_loses_the_other_process_says_so_in_one_line(world, plain, tmp_path):
    """Without a launcher that would end the rest."""
    words = ["train", world, "--out", tmp_path / "run", *plain, "--method", "an"]
    words += ["--epochs", "100000", "--train.patience", "null", "--train.max_drop", "null"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    first, second = (start(*words, env={**os.environ, **group, "RANK": rank, "LOCAL_RANK": rank}) for rank in "01")
    try:
        until_there(tmp_path / "run" / "metrics.jsonl", first)
        second.kill()
        _, err = first.communicate(timeout=60)
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()
    assert first.returncode == 2, err
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("aevlp: process 0: process 1 has ended or cannot be reached (")


def test_a_batch_that_cannot_be_shared_is_refused(world, small, tmp_path):
    process = start("train", world, "--out", tmp_path / "run", *small, "--train.batch_size", "5", processes=2)
    _, err = process.communicate()
    assert process.returncode != 0
    assert err.count("--train.batch_size 5 cannot be shared by 2 processes") == 1
    assert not (tmp_path / "run").exists()


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from aevlp.cli.main import main; main(['--help'])\n"
        "print(sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_wrong_options_are_refused_before_anything_heavy_is_loaded():
    code = (
        "import sys, aevlp.cli.main\n"
        "try: aevlp.cli.main.main(['train', 'x', '--out', 'y', '--epoch', '3'])\n"
        "except SystemExit: print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
