"""`aevlp label --out-format parquet`: a folder that `datasets` opens, and that aevlp reads again."""

import sys

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'aevlp[datasets]'")

from aevlp.data import read
from aevlp.data.annotations import ScoreKind
from aevlp.data.image_files import open_image
from tests.cli.run import aevlp, refused

WORDS = ["--observe", "single", "--device", "cpu", "--teacher", "tests.colours:teacher", "--damp.temperature", "0.1"]
COLUMNS = ["image", "name", "observed", "accepted", "rejected", "proposed", "confidence", "complete"]


@pytest.fixture
def labelled(capsys, world, tmp_path):
    answer = aevlp(capsys, "label", world, "--out", tmp_path / "hub", "--out-format", "parquet", *WORDS)
    assert answer.code == 0, answer.err
    return tmp_path / "hub"


def test_datasets_opens_it(capsys, world, labelled, tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs datasets, which is to open the files")
    cache = {"cache_dir": str(tmp_path / "hf")}
    opened = datasets.load_dataset(str(labelled), **cache)
    named = datasets.load_dataset("parquet", data_dir=str(labelled), **cache)
    assert {split: len(rows) for split, rows in opened.items()} == {"train": 32, "validation": 8, "test": 16}
    assert opened["train"].column_names == named["train"].column_names == COLUMNS
    labels = opened["train"].features["observed"].feature
    assert labels.names == list(read(world).classes)
    jsonl = tmp_path / "same.jsonl"
    assert aevlp(capsys, "label", world, "--out", jsonl, *WORDS).code == 0
    expected = {name.rpartition("/")[2]: row for name, row in zip(read(jsonl).names, read(jsonl).labels, strict=True)}
    for row in opened["train"]:
        assert row["image"].size == (48, 40)
        assert len(row["proposed"]) == len(row["confidence"])
        assert row["observed"] == [column for column, value in enumerate(expected[row["name"].rpartition("/")[2]]) if value == 1]
    assert sum(len(row["proposed"]) for row in opened["train"]) > 0


def test_it_is_an_image_set_with_the_same_states_and_the_same_bytes(capsys, world, labelled, tmp_path):
    jsonl = tmp_path / "same.jsonl"
    assert aevlp(capsys, "label", world, "--out", jsonl, *WORDS).code == 0
    here, there = read(labelled), read(jsonl)
    assert (here.kind, here.classes) == ("parquet", there.classes)
    order = sorted(range(len(there.names)), key=lambda row: there.splits[row])  # as the names of the files
    assert here.splits == tuple(there.splits[row] for row in order)
    assert (here.labels == there.labels[order]).all()
    assert (here.digests == there.digests[order]).all()
    kept = (here.annotations, there.annotations.part(np.array(order)))
    cells = []
    for scores in (each.scores.of(ScoreKind.PROPOSED) for each in kept):
        rounded = scores.confidence.round(5).tolist()
        cells.append(sorted(zip(scores.rows.tolist(), scores.columns.tolist(), rounded, strict=True)))
    assert cells[0] == cells[1]
    assert cells[0]
    with open_image(here.paths[0]) as image:
        assert image.read() == there.paths[order[0]].read_bytes()
    assert aevlp(capsys, "check", labelled).code == 0


def test_what_is_there_stays(capsys, world, labelled):
    said = refused(capsys, "label", world, "--out", labelled, "--out-format", "parquet", *WORDS)
    assert said == f"--out {labelled}: exists; remove it or choose another name"
    said = refused(capsys, "label", world, "--out", labelled.with_name("a.csv"), "--out-format", "parquet", *WORDS)
    assert said.endswith("a.csv: the format parquet is a folder of files; choose a name without .csv")


def test_a_failure_leaves_nothing_behind(capsys, world, tmp_path, monkeypatch):
    def fail(self, row):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aevlp.inference.completion.formats.parquet._SplitFiles.add", fail)
    out = tmp_path / "out" / "hub"
    said = refused(capsys, "label", world, "--out", out, "--out-format", "parquet", *WORDS)
    assert said.startswith(f"{out}: the disk is full")
    assert list(out.parent.iterdir()) == []


def test_without_pyarrow_it_says_what_to_install(capsys, world, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "aevlp.data.arrow_files", raising=False)
    monkeypatch.delattr("aevlp.data.arrow_files", raising=False)
    said = refused(capsys, "label", world, "--out", tmp_path / "hub", "--out-format", "parquet", *WORDS)
    assert said == f"--out {tmp_path / 'hub'}: Parquet cannot be written without pyarrow; pip install 'aevlp[datasets]'"
