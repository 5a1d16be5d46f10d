import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aevlp.core import progress
from aevlp.data import read
from tests.cli.run import aevlp, refused, start
from tests.trained_runs import CALIBRATION, CLASSES, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory, backbone):
    return write_run(tmp_path_factory.mktemp("runs") / "run", backbone)


@pytest.fixture
def beside(world, monkeypatch):
    """Commands are typed in the folder of the world of colours."""
    monkeypatch.chdir(world)
    return world


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_a_listing_of_a_folder(capsys, run, beside):
    answer = aevlp(capsys, "predict", run, "images", "--device", "cpu")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"images/{number:03d}.png" for number in range(56)]
    for line in lines:
        said = line.split(": ", 1)[1]
        if said.startswith("no label (the surest is "):
            assert float(said.split()[-1].rstrip(")")) < 0.5
            continue
        numbers = [float(label.split()[-1]) for label in said.split(", ")]
        assert numbers == sorted(numbers, reverse=True)
        assert min(numbers) >= 0.5


def test_a_trained_run_labels_new_images(capsys, world, plain, tmp_path):
    assert aevlp(capsys, "train", world, "--out", tmp_path / "run", *plain, "--method", "an").code == 0
    out = tmp_path / "found.jsonl"
    answer = aevlp(capsys, "predict", tmp_path / "run", world / "images", "--out", out, "--device", "cpu")
    assert answer.code == 0, answer.err
    assert answer.out == ""
    assert f"56 images: {out}" in answer.err
    found = [json.loads(line) for line in out.read_text().splitlines()]
    thresholds = json.loads((tmp_path / "run" / "thresholds.json").read_text())["classes"]
    for one in found:
        above = {name for name, p in one["probabilities"].items() if p >= thresholds[name]}
        assert set(one["labels"]) == above
        assert list(one["probabilities"]) == CLASSES


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_what_is_written_is_an_image_set_beside_the_images(capsys, run, beside, suffix, tmp_path):
    out = beside / f"found-{os.getpid()}.{suffix}"
    try:
        answer = aevlp(capsys, "predict", run, "images/0*.png", "labels.csv", "--out", out.name, "--device", "cpu")
        assert answer.code == 0, answer.err
        table = read(out)
    finally:
        out.unlink()
    assert table.names == tuple(f"images/{number:03d}.png" for number in range(56))
    assert list(table.classes) == CLASSES


def test_files_folders_patterns_tables_and_standard_input_in_the_order_given(capsys, run, beside, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"images/007.png\n\n./images/006.png\n")))
    words = ["./images/055.png", "-", "images/00[12].png", "labels.csv", "images"]
    answer = aevlp(capsys, "predict", run, *words, "--format", "csv", "--device", "cpu", "--batch-size", "3", "--workers", "1")
    assert answer.code == 0, answer.err
    head, *found = rows(answer.out)
    assert head == ["image", "labels", *CLASSES]
    every = [f"images/{number:03d}.png" for number in range(56)]
    first = ["./images/055.png", "images/007.png", "./images/006.png", "images/001.png", "images/002.png"]
    assert [row[0] for row in found] == [*first, *every, *every]
    by_name: dict[Path, list[float]] = {}
    for row in found:
        values = [float(cell) for cell in row[2:]]
        assert values == pytest.approx(by_name.setdefault(Path(row[0]), values), abs=1e-5)


def test_calibrated_probabilities_with_the_same_labels(capsys, run, beside):
    plain, calibrated = (
        rows(aevlp(capsys, "predict", run, "images", "--format", "csv", "--device", "cpu", *words).out)
        for words in ([], ["--calibrated"])
    )
    assert [row[:2] for row in plain] == [row[:2] for row in calibrated]
    import numpy as np

    raw, shown = (np.array([row[2:] for row in found[1:]], dtype=float) for found in (plain, calibrated))
    np.testing.assert_allclose(shown, CALIBRATION(raw), rtol=1e-3)


def test_broken_images_are_told_of_and_left_out(capsys, run, world, tmp_path):
    (tmp_path / "photos").mkdir()
    whole = (world / "images" / "000.png").read_bytes()
    for name, content in {"1.png": whole, "2.png": b"", "3.png": whole[:90], "4.png": whole}.items():
        (tmp_path / "photos" / name).write_bytes(content)
    out = tmp_path / "found.csv"
    answer = aevlp(capsys, "predict", run, tmp_path / "photos", "--out", out, "--device", "cpu")
    assert answer.code == 0
    assert f"{tmp_path / 'photos' / '2.png'}: an empty file; left out" in answer.err
    assert f"{tmp_path / 'photos' / '3.png'}: truncated: the end of the file is missing; left out" in answer.err
    assert "2 of 4 images could not be read and were left out" in answer.err
    assert [Path(row[0]).name for row in rows(out.read_text())] == ["image", "1.png", "4.png"]


def test_when_no_image_can_be_read_nothing_is_written(capsys, run, tmp_path, monkeypatch):
    (tmp_path / "a.jpg").touch()
    out = tmp_path / "found.csv"
    message = refused(capsys, "predict", run, tmp_path / "a.jpg", "--out", out)
    assert message == "no image to label: none of the 1 images could be read"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert (
        refused(capsys, "predict", run, "-", "--out", out)
        == "no image to label: standard input named none, or the images are gone"
    )
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["a.jpg"]


def test_a_run_without_thresholds_gives_probabilities_and_says_so(capsys, backbone, beside, tmp_path):
    run = write_run(tmp_path / "run", backbone, above=None)
    answer = aevlp(capsys, "predict", run, "images/000.png", "--device", "cpu")
    assert answer.code == 0
    assert f"{run} has no thresholds, so no labels are given: aevlp thresholds RUN DATA makes them" in answer.err
    assert answer.out.count(", ") == 4
    message = refused(capsys, "predict", run, "images/000.png", "--calibrated", "--device", "cpu")
    assert message == f"{run}: no thresholds.json in it; make one with aevlp thresholds {run} DATA"
    model = aevlp(capsys, "predict", run / "model", "images/000.png", "--device", "cpu")
    assert model.out == answer.out


def test_what_is_wrong_is_said_before_anything_is_written(capsys, run, beside, tmp_path):
    out = tmp_path / "found.csv"

    def message(*words):
        text = refused(capsys, "predict", *words)
        assert not out.exists()
        return text

    assert message(run, "nowhere.png", "--out", out) == "nowhere.png: no such file or folder; check the path"
    assert message(run, "images/*.gif", "--out", out).startswith("images/*.gif: no image matches this pattern")
    (tmp_path / "empty").mkdir()
    assert message(run, tmp_path / "empty", "--out", out).endswith("empty: no images in this folder; add some, or check the path")
    assert message(beside, "images", "--out", out).startswith(f"{beside}: not a run folder (no config.yaml)")
    assert message(run, "images", "--out", tmp_path / "found.xlsx").startswith("--out " + str(tmp_path / "found.xlsx"))
    assert "--format: invalid choice: 'xml'" in message(run, "images", "--out", out, "--format", "xml")
    assert message(run, "images", "--batch-size", "0") == "--batch-size must be at least 1, not 0"
    assert message(run, "images", "--workers", "0") == "--workers must be at least 1, not 0"
    assert "the following arguments are required: PATH" in message(run)
    assert "unknown option --batchsize (did you mean '--batch-size'?)" in message(run, "images", "--batchsize", "3")


def test_a_file_that_exists_is_kept(capsys, run, beside, tmp_path):
    (tmp_path / "found.csv").write_text("mine")
    message = refused(capsys, "predict", run, "images", "--out", tmp_path / "found.csv")
    assert message == f"--out {tmp_path / 'found.csv'}: exists; remove it or choose another name"
    assert (tmp_path / "found.csv").read_text() == "mine"


def test_a_run_of_a_newer_version_is_refused(capsys, backbone, beside, tmp_path):
    run = write_run(tmp_path / "run", backbone)
    (run / "result.json").write_text(json.dumps({"versions": {"aevlp": "99.1"}}))
    assert "made by aevlp 99.1, which is newer than this one" in refused(capsys, "predict", run, "images")


def test_a_table_that_breaks_off_leaves_nothing(capsys, run, beside, tmp_path):
    (tmp_path / "list.csv").write_text(f"image\n{beside}/images/000.png\n" * 1 + f'{beside}/images/001.png\n"\n')
    message = refused(capsys, "predict", run, tmp_path / "list.csv", "--out", tmp_path / "found.csv", "--batch-size", "1")
    assert "list.csv, line 4: not a valid table" in message
    assert not list(tmp_path.glob("*found*"))


def test_options_are_refused_before_anything_heavy_is_loaded(run):
    code = (
        "import sys, aevlp.cli.main\n"
        f"try: aevlp.cli.main.main(['predict', {str(run)!r}, 'nowhere.jpg'])\n"
        "except SystemExit: print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_killed_half_way_it_leaves_no_file_under_its_name(run, beside, tmp_path):
    out = tmp_path / "found.csv"
    process = start("predict", run, "-", "--out", out, "--batch-size", 1, "--device", "cpu", stdin=subprocess.PIPE)
    parts: list[Path] = []
    assert process.stdin is not None
    try:
        process.stdin.write("images/000.png\n" * 20)
        process.stdin.flush()  # and no end: it waits for more
        deadline = time.monotonic() + 120
        while not parts and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.05)
            parts = list(tmp_path.glob(".found.csv.*.part"))
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert parts
    assert not out.exists()


def test_who_reads_may_stop_early(run, beside, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # few batches ahead, on any machine
    process = start("predict", run, "-", "--batch-size", 1, "--device", "cpu", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdin.write("images/000.png\n" * 20)
        process.stdin.flush()
        assert process.stdout.readline().startswith("images/000.png: ")
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # it may have stopped already
            process.stdin.write("images/000.png\n" * 20)
            process.stdin.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.soak
def test_two_processes_write_what_one_would(run, beside, tmp_path):
    (tmp_path / "broken.png").touch()
    found = {}
    for processes in (1, 2):
        out = tmp_path / f"{processes}.csv"
        words = ["images/00*.png", tmp_path / "broken.png", "images/05*.png", "--batch-size", 3, "--device", "cpu"]
        process = start("predict", run, *words, "--out", out, processes=processes)
        _, err = process.communicate()
        assert process.returncode == 0, err
        assert err.count("broken.png: an empty file; left out") == 1
        assert err.count("1 of 17 images could not be read and were left out") == 1
        found[processes] = rows(out.read_text())
    assert [row[:2] for row in found[2]] == [row[:2] for row in found[1]]
    for one, two in zip(found[1][1:], found[2][1:], strict=True):
        assert [float(cell) for cell in two[2:]] == pytest.approx([float(cell) for cell in one[2:]], abs=1e-5)


def test_standard_input_belongs_to_one_process(capsys, run, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert refused(capsys, "predict", run, "-") == (
        "-: standard input belongs to one process, and several run here; name files, a folder or a table"
    )


def test_a_file_of_predictions_tells_how_many_are_left(capsys, run, beside, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    answer = aevlp(capsys, "predict", run, "images", "--out", tmp_path / "labels.csv", "--device", "cpu", "--batch-size", 8)
    assert answer.code == 0, answer.err
    assert "predicting: 8 of 56 images" in answer.err
