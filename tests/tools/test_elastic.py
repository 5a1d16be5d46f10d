import random
import sys

from tools.elastic import Training, commands, train

from aevlp.training.run_folder import RunFolder

PROGRAM = """
import sys, time
from pathlib import Path
run = Path(sys.argv[1])
if not (run / "metrics.jsonl").is_file():
    (run / "metrics.jsonl").write_text("{}")
    time.sleep(600)
(run / "result.json").write_text("{}")
"""


def test_what_is_killed_is_started_again_until_the_run_is_finished(tmp_path, capsys):
    """The first start waits for its end, the next one finishes."""
    training = Training(RunFolder(tmp_path), [[sys.executable, "-c", PROGRAM, str(tmp_path)]], tmp_path / "log")
    killed = train(training, kills=5, rng=random.Random(0), pause=3.0)
    assert {name for name, _ in killed} == {"torchrun 0"}
    assert training.starts == len(killed) + 1
    assert "| torchrun 0 |" in capsys.readouterr().out


def test_two_processes_train_by_one_launcher_or_by_two():
    (one,) = commands(["photos"], 1, "1:2")
    assert "--nproc_per_node=2" in one
    assert one[-4:] == ["train", "photos", "--resume", "auto"]
    first, second = commands(["photos"], 2, "1:2")
    assert first == second
    assert {"--nproc_per_node=1", "--nnodes=1:2"} <= set(first)
