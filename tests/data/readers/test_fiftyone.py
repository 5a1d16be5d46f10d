"""FiftyOne's labels: single and multilabel targets, by index or name, with and without attributes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aevlp.data import read
from aevlp.data.records import table_records

Pictures = Callable[[list[str]], Path]
Refusal = Callable[..., str]


@pytest.fixture
def write(pictures: Pictures) -> Callable[..., Path]:
    """Writes a labels.json beside data/1.png and data/2.png."""

    def to_file(labels: Any, classes: Any = ("dog", "cat"), **others: Any) -> Path:
        file = pictures(["set/data/1.png", "set/data/2.png"]) / "set" / "labels.json"
        file.write_text(json.dumps({"classes": classes, "labels": labels, **others}))
        return file

    return to_file


@pytest.mark.parametrize(
    ("target", "labels"),
    [
        (1, [0, 1]),
        ("cat", [0, 1]),
        ({"label": 1, "confidence": 0.5}, [0, 1]),
        ([0, 1], [1, 1]),
        (["dog", {"label": "cat"}], [1, 1]),
        ([{"label": 0, "confidence": None, "attributes": {"state": None, "mood": "glad"}}], [1, 0]),
        (None, [0, 0]),
        ([], [0, 0]),
    ],
)
@pytest.mark.parametrize("name", ["1", "data/1.png", "/home/other/data/1.png"])
def test_targets(target: Any, labels: list[int], name: str, write: Callable[..., Path]) -> None:
    table = read(write({name: target, "2": None}))
    assert (table.kind, table.names, table.classes) == ("fiftyone", ("data/1.png", "data/2.png"), ("dog", "cat"))
    assert table.labels.tolist() == [labels, [0, 0]]


def test_without_classes_labels_are_names(write: Callable[..., Path], refusal: Refusal) -> None:
    assert read(write({"1": "dog", "2": ["bird", "cow"]}, None)).classes == ("bird", "cow", "dog")
    assert refusal(write({"1": 0}, None)).endswith("labels.json: '1': a label is 0, not text; correct it")


def test_states(write: Callable[..., Path]) -> None:
    targets = [
        {"label": 0, "confidence": 0.0, "attributes": {"state": "rejected", "by": "ann"}},
        {"label": 1, "confidence": 0.75, "attributes": {"state": "proposed", "model": 0.5, "teacher": None}},
    ]
    image = {"split": "test", "complete": True}
    one, two = table_records(read(write({"1": targets, "2": None}, images={"2": image})))
    assert (one.rejected, one.answers["dog"].who) == (("dog",), "ann")
    assert (one.proposed["cat"].confidence, one.proposed["cat"].predictors) == (0.75, {"model": 0.5})
    assert (one.split, two.split, one.is_complete, two.is_complete) == ("train", "test", False, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"labels": []}, ": 'labels' is [], not an object; correct it"),
        ({"labels": {"": 0}}, ": the name of an image is empty; name it, or remove the entry"),
        ({"labels": {"1": 2}}, ": '1': there is no class number 2, only 0 to 1; correct it"),
        ({"labels": {"1": -1}}, ": '1': there is no class number -1, only 0 to 1; correct it"),
        ({"labels": {"1": 0.5}}, ": '1': a label is 0.5, not a whole number; correct it"),
        ({"labels": {"1": [[0]]}}, ": '1': a label is [0], not a whole number; correct it"),
        ({"labels": {"1": "dgo"}}, ": '1': the label 'dgo' is not in 'classes'; correct it, or add it there"),
        ({"labels": {"1": {"label": 0, "attributes": []}}}, ": '1': 'attributes' is [], not an object; correct it"),
        ({"labels": {"1": 0}, "images": {"1": 3}}, ": '1' in 'images' is 3, not an object; correct it"),
        ({"labels": {"1": 0, "data/1.png": 0}}, ": several entries are about one image (1, data/1.png); make one entry of them"),
        ({"labels": {"3": 0}}, ": 1 of 1 images are not found (3); they are looked for in "),
        ({"labels": {"1": 0}, "classes": [1]}, ": 'classes' is 1, not text; correct it"),
        ({"labels": {"1": 0}, "classes": "dog"}, ": 'classes' is 'dog', not a list; correct it"),
    ],
)
def test_damaged_files_are_refused(content: dict[str, Any], message: str, write: Callable[..., Path], refusal: Refusal) -> None:
    file = write(**content)
    assert refusal(file, "fiftyone").startswith(f"{file}{message}")


def test_a_file_without_labels_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "x.json").write_text('{"classes": ["a"]}')
    assert refusal(tmp_path / "x.json") == f"{tmp_path}/x.json: no 'labels' in it, which a file of FiftyOne has; export it again"
