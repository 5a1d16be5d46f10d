import csv
import io
import json
import os
from pathlib import Path

import pytest
from PIL import Image

from aevlp.core.errors import UserError
from aevlp.data import read
from aevlp.inference.prediction_formats import PREDICTION_FORMATS, Prediction, format_name

CLASSES = ["dog", "big, red bus", "cät"]
FIRST = Prediction("photos/a, b.png", ["cät", "dog"], [0.71, 0.25, 0.93])
SECOND = Prediction("photos/\n.png", [], [0.4, 0.3, 0.2])


def written(name: str, *predictions: Prediction, classes=CLASSES) -> str:
    layout = PREDICTION_FORMATS[name](classes, has_labels=predictions[0].labels is not None)
    return layout.head + "".join(map(layout.text, predictions))


def test_a_listing_tells_the_surest_first_and_when_there_is_none():
    assert written("text", FIRST, SECOND) == (
        "photos/a, b.png: cät 0.93, dog 0.71\nphotos/\n.png: no label (the surest is dog 0.40)\n"
    )


def test_a_listing_without_thresholds_tells_the_five_surest():
    names = list("abcdefg")
    found = Prediction("x.jpg", None, [0.1, 0.7, 0.3, 0.5, 0.2, 0.6, 0.4])
    assert written("text", found, classes=names) == "x.jpg: b 0.70, f 0.60, d 0.50, g 0.40, c 0.30\n"


def test_a_table():
    rows = list(csv.reader(io.StringIO(written("csv", FIRST, SECOND), newline="")))
    assert rows == [
        ["image", "labels", "dog", "big, red bus", "cät"],
        ["photos/a, b.png", "cät;dog", "0.71", "0.25", "0.93"],
        ["photos/\n.png", "", "0.4", "0.3", "0.2"],
    ]


def test_a_table_without_thresholds_has_no_column_of_labels():
    assert written("csv", Prediction("x.jpg", None, [0.5, 1e-9, 1])) == 'image,dog,"big, red bus",cät\nx.jpg,0.5,1e-09,1\n'


@pytest.mark.parametrize("name", ["=1.png", "+1.png", "-1.png", "@1.png", "=cmd|' -C calc'!A0.png"])
def test_a_file_name_is_no_formula_in_a_spreadsheet_and_names_the_same_image(tmp_path, name):
    Image.new("RGB", (8, 8)).save(tmp_path / name)
    (tmp_path / "found.csv").write_text(written("csv", Prediction(name, ["dog", "cat"], [0.9, 0.1]), classes=["dog", "cat"]))
    (cell,) = [row["image"] for row in csv.DictReader((tmp_path / "found.csv").open())]
    assert cell == f"./{name}"
    assert read(tmp_path / "found.csv").names == (name,)


@pytest.mark.parametrize("name", ['=HYPERLINK("http://x")', "+cmd!A0", "-2+3+SUM(1)", "@SUM(1)", "  =SUM(1)"])
def test_a_class_that_a_spreadsheet_would_run_is_not_written_into_a_table(name):
    with pytest.raises(UserError, match=r"a spreadsheet would run the class name .* write a \.jsonl file instead"):
        written("csv", Prediction("x.jpg", None, [0.9]), classes=[name])
    assert json.loads(written("jsonl", Prediction("x.jpg", None, [0.9]), classes=[name]))["probabilities"] == {name: 0.9}


def test_a_class_that_only_begins_like_a_formula_is_written():
    assert written("csv", Prediction("x.jpg", ["-other"], [0.9, 0.1]), classes=["-other", "@home"]).splitlines() == [
        "image,labels,-other,@home",
        "x.jpg,-other,0.9,0.1",
    ]


def test_lines_of_json():
    first, second, third = map(json.loads, written("jsonl", FIRST, SECOND, Prediction("x", None, [0, 0, 1])).splitlines())
    assert first == {
        "image": "photos/a, b.png",
        "labels": ["cät", "dog"],
        "probabilities": {"dog": 0.71, "big, red bus": 0.25, "cät": 0.93},
    }
    assert second["labels"] == []
    assert third["labels"] is None


def test_probabilities_have_seven_digits():
    third = Prediction("x", [], [0.3333333432674408, 1 - 1e-7, 1.2345678e-5])
    assert json.loads(written("jsonl", third))["probabilities"] == {
        "dog": 0.3333333,
        "big, red bus": 0.9999999,
        "cät": 1.234568e-5,
    }
    assert written("csv", third).endswith("x,,0.3333333,0.9999999,1.234568e-05\n")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_what_is_written_is_an_image_set(tmp_path, suffix):
    """The labels found in some images can be trained on."""
    (tmp_path / "photos").mkdir()
    found = [FIRST, SECOND, Prediction("photos/c.png", ["big, red bus"], [0.1, 0.9, 0.1])]
    for prediction in found:
        Image.new("RGB", (4, 4)).save(tmp_path / prediction.image)
    (tmp_path / f"found.{suffix}").write_text(written(suffix, *found))
    table = read(tmp_path / f"found.{suffix}")
    assert table.names == tuple(prediction.image for prediction in found)
    assert set(table.classes) == set(CLASSES)
    for prediction, row in zip(found, table.labels, strict=True):
        assert {name for name, value in zip(table.classes, row, strict=True) if value} == set(prediction.labels or [])
        assert (row >= 0).all()


def test_a_table_of_probabilities_alone_is_not_taken_for_labels(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "x.png")
    (tmp_path / "found.csv").write_text(written("csv", Prediction("x.png", None, [0.5, 0.2, 1])))
    with pytest.raises(UserError, match=r"column 'dog' has '0\.5', but a class column holds 1, 0, -1 or nothing"):
        read(tmp_path / "found.csv")


@pytest.mark.parametrize("name", ["a;b", "a|b", "Split", "labels", "file_name"])
def test_a_class_that_a_table_would_misread_is_refused_there_only(name):
    with pytest.raises(UserError, match=r"--format csv: the class '.*' would be misread in a table; use --format jsonl"):
        PREDICTION_FORMATS["csv"](["dog", name], has_labels=True)
    line = written("jsonl", Prediction("x", [name], [0.1, 0.9]), classes=["dog", name])
    assert json.loads(line)["labels"] == [name]


def test_a_name_that_is_no_text_stays_the_same_file_and_valid_json(tmp_path):
    name = os.fsdecode(b"\xff.png")
    text = written("jsonl", Prediction(name, [], [0.1, 0.2, 0.3]))
    assert json.loads(text.encode())["image"] == name
    assert "cät" in written("jsonl", FIRST)  # others stay readable


@pytest.mark.parametrize(
    ("out", "named", "found"),
    [(None, None, "text"), ("x.csv", None, "csv"), ("x.JSONL", None, "jsonl"), ("x.txt", "text", "text"), (None, "csv", "csv")],
)
def test_the_format_is_that_of_the_suffix_or_the_one_that_is_named(out, named, found):
    assert format_name(out and Path(out), named) == found


def test_a_suffix_that_says_nothing_is_refused():
    with pytest.raises(UserError) as caught:
        format_name(Path("x.parquet"), None)
    assert str(caught.value) == "--out x.parquet: end the name in .csv or .jsonl, or choose a format with --format"
