"""The same images in every kind of set and at a remote address: one scoring for all, and the same weights."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'aevlp[datasets]'")

import pyarrow as pa

from aevlp.data import read
from tests.cli.run import aevlp, refused, weights_of
from tests.kinds import KINDS, colour_items, image_array, in_memory, write_parquet


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    return colour_items(tmp_path_factory.mktemp("kinds") / "world")


@pytest.fixture
def sets(items, tmp_path):
    """Kind of set -> its place: on this disk, and at a remote address."""
    pytest.importorskip("datasets", reason="needs datasets, which writes one of the kinds")
    local = {kind: write(items, tmp_path / kind) for kind, write in KINDS.items()}
    return {**local, **{f"remote {kind}": in_memory(path, f"{tmp_path.name}-{kind}") for kind, path in local.items()}}


@pytest.fixture
def linear(backbone):
    """Options of a training that takes a second."""
    small = ["--model.image_size", "32", "--train.workers", "1", "--device", "cpu", "--report", "false"]
    return [*small, "--backbone", str(backbone), "--method", "an", "--train.mode", "linear", "--epochs", "2"]


@pytest.fixture
def words(linear):
    """The same for a method that asks a teacher."""
    return [*linear[:-6], "--teacher", "tests.colours:teacher", "--damp.temperature", "0.1"]


def test_one_image_has_one_digest_wherever_it_lies(sets, items):
    assert len(sets) == 10
    expected = [(item.split, item.label) for item in items if item.split == "train"]
    found = {}
    for kind, path in sets.items():
        table = read(path)
        rows = [row for row, split in enumerate(table.splits) if split == "train"]
        labels = [("train", table.classes[table.labels[row].argmax()]) for row in rows]
        assert labels == expected, kind
        found[kind] = (table.classes, table.digests[rows].tolist(), sorted(table.digests.tolist()))
        assert all(len(digest) > 8 for digest in found[kind][2])
    assert all(each == found["folder"] for each in found.values())


def test_what_one_kind_has_scored_no_other_scores_again(capsys, sets, words, passes):
    for number, (kind, path) in enumerate(sets.items()):
        answer = aevlp(capsys, "score", path, *words)
        assert answer.code == 0, answer.err
        assert bool(passes) is (number == 0), kind
        passes.clear()


def test_training_gives_the_same_weights_on_every_kind(capsys, sets, linear, tmp_path):
    weights = {}
    for kind, path in sets.items():
        out = tmp_path / "runs" / kind.replace(" ", "-")
        answer = aevlp(capsys, "train", path, "--out", out, *linear)
        assert answer.code == 0, answer.err
        weights[kind] = weights_of(out)
    assert len(set(weights.values())) == 1, weights


def test_predict_takes_remote_addresses_and_archives(capsys, sets, linear, tmp_path):
    run = tmp_path / "run"
    assert aevlp(capsys, "train", sets["folder"], "--out", run, *linear).code == 0
    tables = {}
    remote = sets["remote folder"]
    for name, path in {
        "folder": sets["folder"] / "train",
        "remote": remote / "train",
        "pattern": f"{remote}/train/*/*.png",
        "parquet": sets["parquet"] / "data" / "train-00000-of-00001.parquet",
        "arrow": sets["remote save-to-disk"] / "train" / "data-00000-of-00001.arrow",
    }.items():
        out = tmp_path / f"{name}.csv"
        answer = aevlp(capsys, "predict", run, path, "--out", out, "--device", "cpu")
        assert answer.code == 0, answer.err
        tables[name] = [line.split(",", 1) for line in out.read_text().splitlines()[1:]]
    assert {len(rows) for rows in tables.values()} == {30}
    assert all([rest for _, rest in rows] == [rest for _, rest in tables["folder"]] for rows in tables.values())
    assert tables["parquet"][17][0].endswith("train-00000-of-00001.parquet/17")


@pytest.mark.parametrize("kind", ["table", "parquet", "webdataset"])
def test_a_known_set_is_not_read_again(capsys, sets, words, kind, monkeypatch):
    monkeypatch.setattr("aevlp.data.known_files.TICK", -1)  # files that were written just now count as settled
    for path in (sets[kind], sets[f"remote {kind}"]):
        assert aevlp(capsys, "score", path, *words).code == 0
        read_again: list[Path] = []
        with monkeypatch.context() as patch:
            patch.setattr("aevlp.data.image_files._digest", lambda path, read_again=read_again: read_again.append(path) or b"x")
            assert aevlp(capsys, "score", path, *words).code == 0
        assert read_again == []


def test_a_changed_archive_is_read_again(capsys, items, words, tmp_path):
    path = KINDS["webdataset"](items, tmp_path / "shards")
    assert aevlp(capsys, "score", path, *words).code == 0
    first = sorted(read(path).digests.tolist())
    KINDS["webdataset"](items[:-5], path)
    assert aevlp(capsys, "score", path, *words).code == 0
    assert sorted(read(path).digests.tolist()) == sorted(set(first) & set(read(path).digests.tolist()))
    assert len(read(path).names) == len(items) - 5


def test_a_filled_store_is_read_from_a_remote_address_and_never_written(capsys, items, words, tmp_path):
    path, store = KINDS["folder"](items, tmp_path / "photos"), tmp_path / "views"
    assert aevlp(capsys, "score", path, *words, "--store", store).code == 0
    remote = in_memory(store, f"{tmp_path.name}-views")
    before = {name for name, *_ in _files(remote)}
    words += ["--store", remote]
    answer = aevlp(capsys, "train", path, "--out", tmp_path / "run", *words, "--epochs", "1", "--method", "aevlp")
    assert answer.code == 0, answer.err
    assert "no teacher pass" in answer.err
    assert {name for name, *_ in _files(remote)} == before
    other = KINDS["folder"](colour_items(tmp_path / "other", train=42), tmp_path / "more")
    said = refused(capsys, "score", other, *words)
    assert "a remote address is only read; fill a store on this machine (--store DIR), and copy it there" in said
    said = refused(capsys, "score", path, *words, "--damp.grid", "2")
    assert "has no embeddings of this model and these views" in said
    assert "a remote address is only read" in refused(capsys, "store", "list", "--store", remote)


def _files(folder):
    import fsspec

    return sorted((name,) for name in fsspec.filesystem("memory").find(f"/{folder.name}"))


@pytest.mark.parametrize("command", ["train", "label", "predict"])
def test_nothing_is_written_to_a_remote_address(capsys, items, words, tmp_path, command):
    path = KINDS["folder"](items, tmp_path / "photos")
    given = [path, *words] if command != "predict" else [tmp_path, path]
    said = refused(capsys, command, *given, "--out", "memory://somewhere/out.csv")
    assert said.startswith("memory://somewhere/out.csv: a remote address is only read")
    assert not Path("memory:").exists()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("parquet", "completed.csv"),
        ("webdataset", "completed.json"),
        ("save-to-disk", "completed.json"),
        ("remote folder", "completed.csv"),
        ("remote webdataset", "completed.jsonl"),
    ],
)
def test_labels_of_every_kind_are_an_image_set_again(capsys, sets, words, tmp_path, kind, name):
    out = tmp_path / "labels" / name
    form = ["--out-format", "coco"] if name.endswith(".json") else []
    answer = aevlp(capsys, "label", sets[kind], "--out", out, *form, *words)
    assert answer.code == 0, answer.err
    answer = aevlp(capsys, "check", out)
    assert answer.code == 0, answer.err
    assert "40 images, 6 classes" in answer.out


def test_answers_about_a_remote_set_are_merged(capsys, sets, words, tmp_path):
    remote, labels = sets["remote folder"], tmp_path / "labels.jsonl"
    assert aevlp(capsys, "label", remote, "--out", labels, *words).code == 0
    rows = [json.loads(line) for line in labels.read_text().splitlines()]
    other = next(name for name in ("black", "red") if name not in rows[0]["labels"])
    rows[0] |= {"accepted": [other], "proposed": {}}
    labels.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer = aevlp(capsys, "merge", remote, labels, "--out", tmp_path / "merged.jsonl")
    assert answer.code == 0, answer.err
    assert "new: 1 labels accepted" in answer.out


def test_features_are_found_by_the_names_of_images_in_archives(capsys, sets, tmp_path):
    names, digests = read(sets["parquet"]).names, read(sets["parquet"]).digests
    values = np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32)
    np.savez(tmp_path / "features.npz", images=np.array(names), features=values)
    by_digest = dict(zip(digests.tolist(), values, strict=True))
    folder = read(sets["folder"])
    same = np.stack([by_digest[digest] for digest in folder.digests.tolist()])
    np.savez(tmp_path / "same.npz", images=np.array(folder.names), features=same)
    weights = []
    for kind, file in (("parquet", "features.npz"), ("folder", "same.npz")):
        out, words = tmp_path / f"on-{kind}", ["--method", "an", "--epochs", "2", "--device", "cpu", "--report", "false"]
        answer = aevlp(capsys, "train", sets[kind], "--out", out, "--features", tmp_path / file, *words)
        assert answer.code == 0, answer.err
        weights.append(weights_of(out))
    assert weights[0] == weights[1]


def test_bad_sets_are_refused_in_one_line(capsys, items, linear, tmp_path):
    files = {
        "damaged.parquet": b"PAR1 and nothing else",
        "damaged.tar": b"no archive" * 100,
        "empty.tar": b"",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        for command in (["check"], ["train", "--out", tmp_path / "run", *linear], ["score"]):
            said = refused(capsys, command[0], tmp_path / name, *command[1:])
            assert said.startswith(f"{tmp_path / name}: damaged, or no "), said
    broken = [replace(item, content=item.content[:60]) if number == 3 else item for number, item in enumerate(items)]
    path = KINDS["parquet"](broken, tmp_path / "broken")
    said = refused(capsys, "train", path, "--out", tmp_path / "run", *linear)
    assert said.startswith(f"{path}: 1 of 40 images cannot be read (data/test-00000-of-00001.parquet/3: ")
    answer = aevlp(capsys, "train", path, "--out", tmp_path / "run", *linear, "--bad-images", "skip")
    assert answer.code == 0, answer.err


def test_columns_are_named_on_the_command_line(capsys, items, linear, tmp_path):
    names = [[item.label] for item in items]
    columns = {"photo": image_array(items), "other": image_array(items), "tags": pa.array(names), "more": pa.array(names)}
    file = write_parquet(tmp_path / "train.parquet", columns)
    said = refused(capsys, "check", file)
    assert said.endswith("name it with --image-column (there are: photo, other)")
    chosen = ["--image-column", "photo", "--label-column", "more"]
    answer = aevlp(capsys, "check", file, *chosen)
    assert answer.code == 0, answer.err
    assert "images from column 'photo', labels from column 'more'" in answer.err
    assert aevlp(capsys, "train", file, "--out", tmp_path / "run", *linear, *chosen).code == 0
