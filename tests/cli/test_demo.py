from functools import partial

import pytest

from aevlp.experiments.demo import run
from aevlp.experiments.demo.scenes import write_world
from tests.cli.run import aevlp, refused


@pytest.fixture
def small_world(monkeypatch):
    """The demo on a hundredth of its images."""
    monkeypatch.setattr(run, "write_world", partial(write_world, train=300, test=40))


def test_the_demo_prints_a_table_and_keeps_what_it_made(capsys, tmp_path, small_world):
    words = ["demo", "--out", tmp_path / "demo", "--methods", "an,aevlp", "--device", "cpu"]
    answer = aevlp(capsys, *words)
    assert answer.code == 0, answer.err
    rows = {line.split()[1]: line for line in answer.out.splitlines() if line.startswith("│")}
    assert {"an", "aevlp"} <= set(rows)
    assert rows["an"].count("-") >= 4  # no pseudo-labels
    assert str(tmp_path / "demo") in answer.out
    assert (tmp_path / "demo" / "world" / "labels.csv").is_file()
    assert (tmp_path / "demo" / "aevlp-0" / "result.json").is_file()
    assert (tmp_path / "demo" / "aevlp-0" / "model" / "model.safetensors").is_file()

    again = aevlp(capsys, *words)
    assert again.out == answer.out
    assert again.err.count("this run is finished") == 2


def test_a_wrong_method_is_said_before_any_work(capsys, tmp_path):
    assert "did you mean 'aevlp'?" in refused(capsys, "demo", "--out", tmp_path / "demo", "--methods", "an,aevpl")
    assert not (tmp_path / "demo").exists()
    assert "--seeds must be at least 1" in refused(capsys, "demo", "--out", tmp_path / "demo", "--seeds", "0")
