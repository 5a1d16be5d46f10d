"""COCO files: labels and states, plain files of boxes, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aevlp.data import read
from aevlp.data.annotations import COMPLETE, Answer
from aevlp.data.records import table_records

Pictures = Callable[[list[str]], Path]
Refusal = Callable[..., str]


@pytest.fixture
def write(pictures: Pictures) -> Callable[..., Path]:
    """Writes a COCO file of three images, with changes, and returns it."""

    def to_file(images: Any = None, annotations: Any = (), **others: Any) -> Path:
        root = pictures([f"set/photos/{n}.png" for n in (1, 2, 3)]) / "set"
        content: dict[str, Any] = {
            "info": {},
            "images": [{"id": n, "file_name": f"{n}.png"} for n in (1, 2, 3)] if images is None else images,
            "annotations": list(annotations) if isinstance(annotations, list | tuple) else annotations,
            "categories": [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}],
        }
        file = root / "instances.json"
        file.write_text(json.dumps(content | others))
        return file

    return to_file


def test_plain_boxes(write: Callable[..., Path]) -> None:
    boxes = [
        {"id": 1, "image_id": 1, "category_id": 7, "bbox": [1, 1, 2, 2], "segmentation": [[1.5, 2]], "iscrowd": 0},
        {"id": 2, "image_id": 1, "category_id": 7, "bbox": [3, 3, 2, 2]},
        {"id": 3, "image_id": 3, "category_id": 3},
    ]
    table = read(write(annotations=boxes))
    assert (table.kind, table.classes, table.names) == ("coco-file", ("dog", "cat"), tuple(f"photos/{n}.png" for n in (1, 2, 3)))
    assert table.labels.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert not table.annotations.answers
    assert not table.annotations.complete


def test_states_of_annotations_and_of_their_attributes(write: Callable[..., Path]) -> None:
    annotations = [
        {"id": 1, "image_id": 1, "category_id": 7, "state": "accepted", "by": "ann", "at": "2026-01-31T10:00:00+00:00"},
        {"id": 2, "image_id": 1, "category_id": 7},  # another box of it
        {"id": 3, "image_id": 1, "category_id": 3, "attributes": {"state": "proposed", "occluded": False}, "score": 0.75},
        {"id": 4, "image_id": 2, "category_id": 7, "state": "rejected"},
        {"id": 5, "image_id": 3, "category_id": 7, "state": "proposed", "score": 0.75, "teacher": 0.5},
    ]
    images = [
        {"id": 1, "file_name": "1.png", "split": "validation"},
        {"id": 2, "file_name": "2.png", "complete": True, "answers": [{"by": "bob"}]},
        {"id": 3, "file_name": "3.png", "neg_category_ids": [7], "answers": [{"category_id": 7, "by": "bob"}]},
    ]
    one, two, three = table_records(read(write(images, annotations)))
    assert (one.split, one.accepted, one.proposed["cat"].confidence) == ("val", ("dog",), 0.75)
    assert one.answers == {"dog": Answer("ann", "2026-01-31T10:00:00+00:00")}
    assert (two.rejected, two.is_complete, two.answers) == (("dog",), True, {COMPLETE: Answer("bob")})
    assert (three.rejected, dict(three.proposed), three.answers) == (
        ("dog",),
        {},
        {"dog": Answer("bob")},
    )  # a person's word counts


def test_classes_txt_fixes_the_order(write: Callable[..., Path], refusal: Refusal) -> None:
    file = write(annotations=[{"id": 1, "image_id": 1, "category_id": 7}])
    (file.parent / "classes.txt").write_text("cat\ncow\ndog\n")
    assert read(file).classes == ("cat", "cow", "dog")
    (file.parent / "classes.txt").write_text("cat\ncow\n")
    assert refusal(file) == (f"{file}: image 1 ('1.png'): class 'dog' is not in classes.txt; correct the name, or add it there")


def test_the_official_layout_is_read_as_such(write: Callable[..., Path]) -> None:
    """Only the path of a file is read as a file."""
    file = write()
    assert read(file, "coco-file").kind == "coco-file"


BOX = {"id": 1, "image_id": 1, "category_id": 7}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": {}}, ": image: the list is {}, not a list; correct it"),
        ({"images": [1]}, ": image 1 is 1, not an object; correct it"),
        ({"images": [{"id": 1}]}, ": image 1: 'file_name' is None, not text; correct it"),
        ({"images": [{"id": 1, "file_name": " "}]}, ": image 1: 'file_name' is empty; name it, or remove the entry"),
        ({"images": [{"id": 1e999, "file_name": "1.png"}]}, ": has the number Infinity, which is not JSON; correct it"),
        ({"images": [{"id": True, "file_name": "1.png"}]}, ": image 1: 'id' is True, not a whole number; correct it"),
        ({"images": [{"id": 1, "file_name": "1.png"}] * 2}, ": image 1 is described twice; remove one of the entries"),
        (
            {"images": [{"id": 1, "file_name": "1.png"}, {"id": 2, "file_name": "1.png"}]},
            ": image names that occur more than once: 1 (1.png); make one entry of them",
        ),
        (
            {"images": [{"id": 1, "file_name": "1.png"}, {"id": 2, "file_name": "photos/1.png"}]},
            ": several entries are about one image (1.png, photos/1.png); make one entry of them",
        ),
        (
            {"images": [{"id": 1, "file_name": "1.png", "split": "tarin"}]},
            ": image 1 ('1.png'): split 'tarin' is none of train, val, test; correct it",
        ),
        (
            {"images": [{"id": 1, "file_name": "1.png", "neg_category_ids": [9]}]},
            ": image 1 ('1.png') names the category 9, which the file does not describe; add or correct it",
        ),
        ({"images": [{"id": 1, "file_name": "1.png", "complete": 1}]}, ": image 1 ('1.png'): 'complete' is 1, not true or false"),
        ({"annotations": [BOX | {"image_id": 4}]}, ": annotation 1 names the image 4, which the file does not describe"),
        ({"annotations": [BOX | {"category_id": 4}]}, ": annotation 1 names the category 4, which the file does not describe"),
        (
            {"annotations": [BOX | {"category_id": "dog"}]},
            ": annotation 1: the category is 'dog', not a whole number; correct it",
        ),
        (
            {"annotations": [BOX | {"state": "acepted"}]},
            ": annotation 1: 'state' is 'acepted' (did you mean 'accepted'?), none of rejected, observed, accepted, proposed",
        ),
        (
            {"annotations": [BOX | {"state": "proposed", "score": 2}]},
            ": image 1 ('1.png'), 'dog': 'score' is 2, not a number from 0 to 1; correct it",
        ),
        (
            {"annotations": [BOX, BOX | {"state": "rejected"}]},
            ": image 1 ('1.png'), 'dog' is both positive and negative; keep it as one of the two",
        ),
        ({"annotations": [BOX | {"state": "proposed", "score": float("nan")}]}, ": has the number NaN, which is not JSON"),
        ({"categories": None}, ": annotation 1 names the category 7, which the file does not describe; add or correct it"),
        (
            {"categories": [{"id": 1, "name": "dog"}, {"id": 2, "name": "dog"}]},
            ": category names that occur more than once: 1 (dog); give each a name of its own",
        ),
    ],
)
def test_damaged_files_are_refused(changes: dict[str, Any], message: str, write: Callable[..., Path], refusal: Refusal) -> None:
    file = write(**{"annotations": [BOX], **changes})
    if "1e999" in message:
        file.write_text(file.read_text().replace("Infinity", "1e999"))
    assert refusal(file).startswith(f"{file}{message}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"images": [', ", line 1: not JSON (Expecting value); write the file again, it may be cut short"),
        ('{"images": ' + "[" * 100_000, ": nested too deep to be a file of labels; write it again"),
        ('{"images": ' + "1" * 5000 + "}", ": has a number that is too long; correct it"),
        ('{"images": [], "images": []}', ": one object has the key 'images' twice; remove one of them"),
        ('{"images": [], "annotations": []}', ": no 'categories' in it, which a COCO file has; write it again"),
        ('{"images": [{"id": 1e999}], "annotations": [], "categories": []}', ": image 1: 'id' is inf, not a whole number"),
        ('{"images": [], "annotations": [], "categories": []}', ": no images in it (read as coco-file)"),
    ],
)
def test_hostile_files_are_refused(text: str, message: str, tmp_path: Path, refusal: Refusal) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    assert refusal(file).startswith(f"{file}{message}")


def test_what_is_no_text_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "x.json").write_bytes(b'{"images": "\xff"}')
    assert refusal(tmp_path / "x.json") == f"{tmp_path}/x.json: not UTF-8 text (byte 12); save it as UTF-8"
    (tmp_path / "x.json").write_bytes(b"\x89PNG")
    assert "not an image set of a known kind" in refusal(tmp_path / "x.json")


def test_recognising_a_file_reads_only_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aevlp.data.json_labels import HEAD, kind_of

    file = tmp_path / "x.json"
    file.write_text("\ufeff\n {" + " " * 100 + '"annotations" : [' + " " * 10_000_000)
    assert kind_of(file) == "coco-file"
    assert HEAD < 1_000_000
    file.write_text('{"version": 1, "classes": ["labels"], "images": {}}')
    assert kind_of(file) == "fiftyone"
    file.write_text(" [ ]")
    assert kind_of(file) == "label-studio"
    for other in ("", "{}", '"images"', '{"a": 1}'):
        file.write_text(other)
        assert kind_of(file) is None
