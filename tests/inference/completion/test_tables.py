"""CSV and JSONL: what they hold, and that they are image sets with the same images, classes, splits and labels."""

import csv
import json
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from aevlp import __version__
from aevlp.data import prepare, read
from aevlp.data.annotations import Answer
from aevlp.data.records import LabelRecord
from aevlp.inference.completion.formats import LABEL_FORMATS, LabelFile
from tests.cli.run import aevlp
from tests.conftest import REPOSITORY
from tests.inference.completion.examples import BOB, CLASSES, RECORDS, record, score

TABLES = ("csv", "jsonl")


def value_of(image, name: str) -> int:
    """What a table should say of a class: 1, -1, or 0 for unknown."""
    return 1 if name in image.confirmed else -1 if name in image.rejected else 0


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


def _without(image: LabelRecord, label: str) -> LabelRecord:
    return replace(
        image,
        rejected=tuple(name for name in image.rejected if name != label),
        candidates={name: score for name, score in image.candidates.items() if name != label},
        answers={name: answer for name, answer in image.answers.items() if name != label},
    )


@pytest.mark.parametrize("table", TABLES)
def test_is_taken_by_the_commands(table, written, capsys):
    with_examples = CLASSES[:-1]
    records = [_without(image, CLASSES[-1]) for image in RECORDS]
    answer = aevlp(capsys, "check", written(table, records=records, classes=with_examples))
    assert answer.code == 0, answer
    assert "6 images, 3 classes" in answer.out


@pytest.mark.parametrize("table", TABLES)
def test_splits_are_prepared_as_the_records_say(table, written):
    data = prepare(read(written(table)))
    assert data.test is not None
    assert (data.val.names, data.test.names) == (("../my photos/three\n<&>.png",), ("../my photos/nothing.png",))
    assert np.array_equal(data.val.evaluation_labels, [[-1, 1, 1, -1]])
    assert data.train.observed[0].tolist() == [1, 0, 0, 0]


def test_csv_holds_what_is_documented(written):
    with written("csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0] == {
        "image": "../my photos/a/one.png",
        "split": "train",
        "labels": "zebra",
        "accepted": "",
        "negatives": "",
        "proposed": "apple=0.93;née <b>=0.81",
        "proposed_negatives": "",
        "candidates": "nobody=0.3",
        "doubted": "zebra=0.04",
        "complete": "",
        "answers": "",
        "witnesses": "teacher:apple=0.9;model:apple=0.95;teacher:née <b>=0.7;model:née <b>=0.92;"
        "teacher:nobody=0.2;model:nobody=0.4;teacher:zebra=0.05;model:zebra=0.03",
    }
    assert [rows[1][column] for column in ("labels", "negatives", "proposed_negatives", "witnesses")] == [
        "",
        "apple",
        "zebra=0.01",
        "teacher:zebra=0.01",
    ]
    assert [rows[5][column] for column in ("labels", "accepted", "negatives", "complete", "answers")] == [
        "apple",
        "née <b>;zebra",
        "nobody",
        "1",
        "née <b>=@;zebra=ann@example.org@2026-01-31T10:00:00+00:00;"
        "nobody=Bob%3B%20100%20%25%20%3D%20%7Cx%7C@2026-02-01T11:30:00+00:00;"
        "=Bob%3B%20100%20%25%20%3D%20%7Cx%7C@2026-02-01T11:30:00+00:00",
    ]


def test_jsonl_holds_what_is_documented(written):
    lines = [json.loads(line) for line in written("jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {
        "image": "../my photos/a/one.png",
        "split": "train",
        "labels": ["zebra"],
        "accepted": [],
        "negatives": [],
        "proposed": {
            "apple": {"confidence": 0.93, "teacher": 0.9, "model": 0.95},
            "née <b>": {"confidence": 0.81, "teacher": 0.7, "model": 0.92},
        },
        "proposed_negatives": {},
        "candidates": {"nobody": {"confidence": 0.3, "teacher": 0.2, "model": 0.4}},
        "doubted": {"zebra": {"confidence": 0.04, "teacher": 0.05, "model": 0.03}},
        "complete": False,
        "answers": {},
    }
    assert lines[1]["proposed_negatives"] == {"zebra": {"confidence": 0.01, "teacher": 0.01}}
    assert lines[5]["answers"][""] == {"who": BOB.who, "at": BOB.at}


EXAMPLE = record(
    "1.jpg",
    observed=["dog"],
    accepted=["tree"],
    rejected=["sofa"],
    proposed={"car": score(0.93, teacher=0.9, model=0.95)},
    proposed_absent={"cat": score(0.02, teacher=0.03, model=0.01)},
    answers={label: Answer("ann", "2026-01-31T10:00:00+00:00") for label in ("tree", "sofa")},
)


@pytest.mark.parametrize("name", [name for name, format in LABEL_FORMATS.items() if format.suffix])
def test_example_in_the_docs_is_what_is_written(name, tmp_path):
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (640, 480)).save(tmp_path / "photos" / "1.jpg")
    out = tmp_path / f"x{LABEL_FORMATS[name].suffix}"
    LABEL_FORMATS[name].write(LabelFile(out, tmp_path / "photos", ("car", "cat", "dog", "sofa", "tree")), [EXAMPLE])
    text = out.read_text().replace(str(tmp_path.resolve()), "/home/me").replace(__version__, "X")
    page = (REPOSITORY / "docs" / "label-formats.md").read_text()
    shown = page.split(f"## {name}\n\n")[1].split("\n\n")[0]
    assert "".join(shown.split()) == "".join(text.split())


def test_probabilities_are_written_without_noise(written):
    exact = float(np.float32(0.93))
    out = written("csv", records=[record("nothing.png", proposed={"apple": score(exact, teacher=3e-9)})])
    assert ",apple=0.93," in out.read_text()
    assert "teacher:apple=3e-09" in out.read_text()


def test_bytes_of_a_name_that_is_not_utf8_survive(written, photos):
    name = os.fsdecode(b"caf\xe9.png")
    (photos / name).touch()
    records = [record(name, observed=["apple"], rejected=["zebra"])]
    assert b"../my photos/caf\xe9.png,train,apple," in written("csv", records=records, classes=["apple", "zebra"]).read_bytes()
    found = read(written("jsonl", records=records, classes=["apple", "zebra"]))
    assert found.names == (f"../my photos/{name}",)
