"""CSV and JSONL: what they hold, and that they are image sets with the same images, classes, splits and labels."""

import csv
import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aevlp.data import prepare, read
from aevlp.inference.completion.formats import LABEL_FORMATS, LabelFile
from tests.cli.run import aevlp
from tests.conftest import REPOSITORY
from tests.inference.completion.examples import CLASSES, RECORDS, record, score

TABLES = ("csv", "jsonl")


def value_of(image, name: str) -> int:
    """What a table should say of a class: 1, -1, or 0 for unknown."""
    if name in image.observed or name in image.proposed:
        return 1
    return -1 if name in image.absent or name in image.proposed_absent else 0


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("place", ["beside", "inside", "in a linked folder"])
def test_round_trip(table, place, photos, written, tmp_path):
    folder = {"beside": tmp_path, "inside": photos, "in a linked folder": tmp_path / "link"}[place]
    if place == "in a linked folder":
        (tmp_path / "far" / "away").mkdir(parents=True)
        folder.symlink_to(tmp_path / "far" / "away")
    found = read(written(table, folder / f"completed.{table}"))
    assert [path.resolve() for path in found.paths] == [(photos / image.name).resolve() for image in RECORDS]
    if place == "inside":
        assert found.names == tuple(image.name for image in RECORDS)
    assert found.classes == CLASSES
    assert found.splits == tuple(image.split for image in RECORDS)
    assert found.labels.tolist() == [[value_of(image, name) for name in CLASSES] for image in RECORDS]


@pytest.mark.parametrize("table", TABLES)
def test_linked_images_keep_their_names(table, photos, written, tmp_path):
    """A link is a name of its own; only the folders that a path climbs out of are followed."""
    (photos / "link.png").symlink_to(photos / "nothing.png")
    (tmp_path / "other").symlink_to(photos / "a")
    records = [record("link.png", observed=["apple"]), record("../other/../nothing.png", observed=["apple", "zebra"])]
    found = read(written(table, photos / f"x.{table}", records=records, classes=["apple", "zebra"]))
    assert found.names == ("link.png", "nothing.png")


@pytest.mark.parametrize("table", TABLES)
def test_is_taken_by_the_commands(table, written, capsys):
    with_examples = CLASSES[:-1]
    records = [replace(image, absent=tuple(name for name in image.absent if name in with_examples)) for image in RECORDS]
    answer = aevlp(capsys, "check", written(table, records=records, classes=with_examples))
    assert answer.code == 0, answer
    assert "5 images, 3 classes" in answer.out


@pytest.mark.parametrize("table", TABLES)
def test_splits_are_prepared_as_the_records_say(table, written):
    data = prepare(read(written(table)))
    assert data.test is not None
    assert (data.val.names, data.test.names) == (("../my photos/three\n<&>.png",), ("../my photos/nothing.png",))
    assert np.array_equal(data.val.evaluation_labels, [[-1, 1, 1, -1]])
    assert data.train.observed[0].tolist() == [1, 1, 1, 0]


def test_csv_holds_what_is_documented(written):
    with written("csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {
        "image": "../my photos/a/one.png",
        "split": "train",
        "labels": "zebra;apple;née <b>",
        "negatives": "",
        "observed": "zebra",
        "proposed": "apple=0.93;née <b>=0.81",
        "proposed_negatives": "",
        "doubted": "zebra=0.04",
        "witnesses": "teacher:apple=0.9;model:apple=0.95;teacher:née <b>=0.7;model:née <b>=0.92;"
        "teacher:zebra=0.05;model:zebra=0.03",
    }
    assert [rows[1][column] for column in ("labels", "negatives", "proposed_negatives", "witnesses")] == [
        "",
        "apple;zebra",
        "zebra=0.01",
        "teacher:zebra=0.01",
    ]


def test_jsonl_holds_what_is_documented(written):
    lines = [json.loads(line) for line in written("jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {
        "image": "../my photos/a/one.png",
        "split": "train",
        "labels": ["zebra", "apple", "née <b>"],
        "negatives": [],
        "observed": ["zebra"],
        "proposed": {
            "apple": {"confidence": 0.93, "teacher": 0.9, "model": 0.95},
            "née <b>": {"confidence": 0.81, "teacher": 0.7, "model": 0.92},
        },
        "proposed_negatives": {},
        "doubted": {"zebra": {"confidence": 0.04, "teacher": 0.05, "model": 0.03}},
    }
    assert lines[1]["proposed_negatives"] == {"zebra": {"confidence": 0.01, "teacher": 0.01}}


@pytest.mark.parametrize("table", TABLES)
def test_example_in_the_docs_is_what_is_written(table, tmp_path):
    sure, unsure = score(0.93, teacher=0.9, model=0.95), score(0.02, teacher=0.03, model=0.01)
    example = record("photos/1.jpg", observed=["dog"], proposed={"car": sure}, proposed_absent={"cat": unsure})
    LABEL_FORMATS[table].write(LabelFile(tmp_path / f"x.{table}", tmp_path, ("car", "cat", "dog")), [example])
    page = (REPOSITORY / "docs" / "label-formats.md").read_text()
    shown = page.split(f"## {table}\n\n")[1].split("\n\n")[0]
    assert shown.split() == (tmp_path / f"x.{table}").read_text().split()


def test_probabilities_are_written_without_noise(written):
    exact = float(np.float32(0.93))
    out = written("csv", records=[record("nothing.png", proposed={"apple": score(exact, teacher=3e-9)})])
    assert ",apple=0.93," in out.read_text()
    assert "teacher:apple=3e-09" in out.read_text()


def test_bytes_of_a_name_that_is_not_utf8_survive(written, photos):
    name = os.fsdecode(b"caf\xe9.png")
    (photos / name).touch()
    records = [record(name, observed=["apple"], absent=["zebra"])]
    assert b"../my photos/caf\xe9.png,train,apple," in written("csv", records=records, classes=["apple", "zebra"]).read_bytes()
    found = read(written("jsonl", records=records, classes=["apple", "zebra"]))
    assert found.names == (f"../my photos/{name}",)


ODD = st.sampled_from(" \t\n\r,;|=\"'\\<>&%#?:*éß\u2028\u3000\ufeff.-ab")
NAMES = st.lists(st.text(ODD, min_size=1, max_size=6).map("{}.jpg".format), min_size=1, max_size=4, unique=True)
LETTERS = st.sampled_from(" ,;|=\"'\\<>&%#?:é.-ab")
CLASS_NAMES = st.text(LETTERS, min_size=1, max_size=5).map(str.strip).filter(bool)


@pytest.mark.parametrize("table", TABLES)
@settings(max_examples=60, deadline=None)
@given(names=NAMES, classes=st.lists(CLASS_NAMES, min_size=2, max_size=4, unique=True), data=st.data())
def test_any_names_come_back(table, names, classes, data):
    if table == "csv":
        classes = list(dict.fromkeys(name.replace(";", "+").replace("|", "+") for name in classes))
        classes += ["one more"] * (len(classes) < 2)
    values = data.draw(st.lists(st.lists(st.sampled_from([1, 0, -1]), min_size=len(classes), max_size=len(classes))))
    values = [*values, *([0] * len(classes) for _ in names)][: len(names)]
    splits = data.draw(st.lists(st.sampled_from(["train", "val", "test"]), min_size=len(names), max_size=len(names)))
    records = [
        record(
            name,
            split,
            observed=[c for c, value in zip(classes, row, strict=True) if value == 1],
            proposed_absent={c: score(0.1) for c, value in zip(classes, row, strict=True) if value == -1},
        )
        for name, split, row in zip(names, splits, values, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        root, out = Path(folder), Path(folder, f"completed.{table}")
        for name in names:
            (root / name).touch()
        file = LabelFile(out, root, tuple(classes))
        LABEL_FORMATS[table].check(file)
        LABEL_FORMATS[table].write(file, records)
        found = read(out)
    assert found.names == tuple(names)
    assert found.classes == tuple(classes)
    assert found.splits == tuple(splits)
    assert found.labels.tolist() == values
