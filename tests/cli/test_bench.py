import json
import subprocess
import sys
import tempfile
from functools import partial

import pytest

from aevlp.experiments.bench.figures import FIGURES
from aevlp.experiments.bench.measurement import Measurement, SpeedFigure
from tests.cli.run import aevlp, refused


@pytest.fixture
def own_temp(tmp_path, monkeypatch):
    """The folder in which temporary folders are made."""
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    return tmp_path / "temp"


def put(monkeypatch, name, measure, takes_long=False):
    monkeypatch.setitem(FIGURES, name, SpeedFigure(name, "a figure", measure, takes_long))


def test_a_figure_from_the_command_line(capsys, monkeypatch, tmp_path, own_temp):
    put(monkeypatch, "labels", partial(FIGURES["labels"].measure, images=300))
    out = tmp_path / "deep" / "bench.json"
    answer = aevlp(capsys, "bench", "--only", "labels", "--repeats", "1", "--out", out, "--device", "cpu")
    assert answer.code == 0, answer.err
    assert "labels: round 1 of 1" in answer.err
    assert answer.out.count("labels of recombined") == 2
    assert ">= 20,000: " in answer.out
    found = json.loads(out.read_text())
    assert {"date", "cpu", "cores", "torch_threads"} <= set(found)
    assert {"python", "aevlp", "torch", "transformers", "numpy", "pillow"} <= set(found["versions"])
    assert [row["figure"] for row in found["rows"]] == ["labels"] * 6
    first = found["rows"][0]
    assert first["goal"] == ">= 20,000"
    assert first["unit"] == "images/s"
    assert first["is_met"] == (first["value"] >= 20_000)
    assert first["low"] <= first["value"] <= first["high"]
    assert first["setting"]["images"] == 300
    assert "s for 5,717 images" in first["absolute"]
    assert not list(own_temp.iterdir())


def test_all_but_the_long_ones_are_measured_and_a_missed_goal_is_no_error(capsys, monkeypatch):
    monkeypatch.setattr("aevlp.experiments.bench.figures.FIGURES", FIGURES)
    for name in list(FIGURES):
        monkeypatch.delitem(FIGURES, name)
    seen = []

    def measure(bench, repeats=3):
        seen.append((bench.folder.is_dir(), repeats))
        return [
            Measurement("this", "that", 0.5, 0.25, 0.75, at_least=1.0),
            Measurement("these", "those", 2.0, 2.0, 2.0, at_most=2.0),
        ]

    put(monkeypatch, "quick", measure)
    put(monkeypatch, "slow", measure, takes_long=True)
    answer = aevlp(capsys, "bench", "--device", "cpu")
    assert answer.code == 0
    missed, met = (line for line in answer.out.splitlines() if "quick" in line)
    assert "0.25 .. 0.75" in missed
    assert ">= 1: missed" in missed
    assert "<= 2: met" in met
    assert "slow" not in answer.out
    assert seen == [(True, 3)]
    assert "slow" in aevlp(capsys, "bench", "--only", "slow,slow", "--repeats", "7", "--device", "cpu").out
    assert seen[1:] == [(True, 7)]


def test_an_error_leaves_no_folder_and_no_file(capsys, monkeypatch, tmp_path, own_temp):
    def measure(bench):
        (bench.folder / "large").write_text("x")
        assert list(own_temp.iterdir())
        raise RuntimeError("broken")

    put(monkeypatch, "labels", measure)
    with pytest.raises(RuntimeError, match="broken"):
        aevlp(capsys, "bench", "--only", "labels", "--out", tmp_path / "bench.json", "--device", "cpu")
    assert not list(own_temp.iterdir())
    assert not (tmp_path / "bench.json").exists()


def test_list_tells_all_and_measures_none(capsys):
    answer = aevlp(capsys, "bench", "--list")
    lines = {line.split()[0]: line for line in answer.out.splitlines()}
    assert set(lines) == set(FIGURES)
    assert "only when named" in lines["growth"]
    assert "only when named" not in lines["scoring"]


def test_wrong_options(capsys, tmp_path):
    message = refused(capsys, "bench", "--only", "views,scorin")
    assert message.startswith("--only scorin: no such figure (did you mean 'scoring'?); known are ")
    assert "--repeats must be at least 1, not 0" in refused(capsys, "bench", "--repeats", "0")
    (tmp_path / "old.json").write_text("{}")
    message = refused(capsys, "bench", "--only", "labels", "--out", tmp_path / "old.json")
    assert f"--out {tmp_path / 'old.json'}: exists; remove it or choose another name" in message
    assert (tmp_path / "old.json").read_text() == "{}"
    message = refused(capsys, "bench", "--only", "labels", "--out", tmp_path / "old.json" / "new.json")
    assert "new.json: cannot be written" in message
    assert "unknown option --precision" in refused(capsys, "bench", "--precision", "bf16")


def test_a_wrong_value_is_refused_before_anything_heavy_is_loaded():
    code = (
        "import sys, aevlp.cli.main\n"
        "for word in ('0', 'many'):\n"
        "    try: aevlp.cli.main.main(['bench', '--repeats', word])\n"
        "    except SystemExit as stop: print(stop.code, sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2 []", "2 []"]
