"""COCO, on miniature trees in the layout of the official archives."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from aevlp.data import prepare, read
from tests.cli.run import aevlp, refused

Pictures = Callable[[list[str]], Path]
Refusal = Callable[..., str]

CATEGORIES = [  # as officially: ids with gaps; here also out of order
    {"supercategory": "outdoor", "id": 13, "name": "stop sign"},
    {"supercategory": "person", "id": 1, "name": "person"},
    {"supercategory": "vehicle", "id": 2, "name": "bicycle"},
    {"supercategory": "indoor", "id": 90, "name": "toothbrush"},
]
SHOWN = {
    "train": {9: [1, 1, 13], 100: [90], 25: [], 10: [2, 1], 524291: [13]},
    "val": {42: [1], 7: [], 8: [], 139: [2, 90]},
}
PAGE = "(see https://cocodataset.org/#download)"


def write_part(root: Path, part: str, year: str, shown: dict[int, list[int]]) -> None:
    prefix = f"COCO_{part}{year}_" if year == "2014" else ""
    folder = root / f"{part}{year}"
    folder.mkdir(parents=True)
    for number in shown:
        Image.new("RGB", (12, 8), (number % 256, number // 256 % 256, 10 if part == "val" else 20)).save(
            folder / f"{prefix}{number:012d}.jpg"
        )
    content = {
        "info": {"description": "COCO 2014 Dataset", "year": 2014},
        "licenses": [{"id": 1, "name": "a licence", "url": "http://example.org"}],
        "images": [
            {"license": 1, "file_name": f"{prefix}{number:012d}.jpg", "height": 8, "width": 12, "id": number} for number in shown
        ],
        "annotations": [
            {
                "segmentation": {"counts": [96], "size": [8, 12]} if crowd else [[1.5, 2.5, 3.5, 4.5, 5.5, 6.5]],
                "area": 10.5,
                "iscrowd": int(crowd),
                "image_id": number,
                "bbox": [1.0, 2.0, 3.0, 4.0],
                "category_id": category,
                "id": 1000 * number + place,
            }
            for number, categories in shown.items()
            for place, category in enumerate(categories)
            for crowd in [category == 90]
        ],
        "categories": CATEGORIES,
    }
    (root / "annotations").mkdir(exist_ok=True)
    (root / "annotations" / f"instances_{part}{year}.json").write_text(json.dumps(content))


def write_tree(root: Path, year: str = "2014") -> Path:
    for part, shown in SHOWN.items():
        write_part(root, part, year, shown)
    return root


def change(root: Path, part: str, edit: Callable[[dict[str, Any]], object]) -> Path:
    file = root / "annotations" / f"instances_{part}2014.json"
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))
    return file


def test_annotated_images_in_the_order_of_ids_as_text_and_classes_by_id(tmp_path: Path) -> None:
    table = read(write_tree(tmp_path))
    assert (table.kind, table.root) == ("coco", tmp_path)
    assert table.classes == ("person", "bicycle", "stop sign", "toothbrush")
    assert table.names == (
        "train2014/COCO_train2014_000000000010.jpg",
        "train2014/COCO_train2014_000000000100.jpg",
        "train2014/COCO_train2014_000000524291.jpg",
        "train2014/COCO_train2014_000000000009.jpg",
        "val2014/COCO_val2014_000000000139.jpg",
        "val2014/COCO_val2014_000000000042.jpg",
    )
    assert table.splits == ("train",) * 4 + ("test",) * 2
    assert table.labels.tolist() == [[1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0]]
    assert table.truth is not None
    assert np.array_equal(table.truth, np.where(table.labels == 1, 1, -1))
    assert table.notes == (
        "images of train2014 without any annotation, left out: 1",
        "images of val2014 without any annotation, left out: 2",
    )


def test_a_crowd_counts(tmp_path: Path) -> None:
    table = read(write_tree(tmp_path))  # every toothbrush of it is a crowd
    assert table.labels[:, table.classes.index("toothbrush")].tolist() == [0, 1, 0, 0, 1, 0]


def test_the_names_of_2017(tmp_path: Path) -> None:
    table = read(write_tree(tmp_path, "2017"))
    assert table.kind == "coco"
    assert table.names[0] == "train2017/000000000010.jpg"
    assert table.names[-1] == "val2017/000000000042.jpg"
    assert table.notes[0] == "images of train2017 without any annotation, left out: 1"


def test_both_years(tmp_path: Path) -> None:
    write_tree(write_tree(tmp_path), "2017")
    assert read(tmp_path).names[0].startswith("train2014/")
    (tmp_path / "annotations/instances_val2014.json").unlink()
    assert read(tmp_path).names[0].startswith("train2017/")


def test_it_can_be_prepared(tmp_path: Path) -> None:
    for part in SHOWN:
        write_part(tmp_path, part, "2014", {number: [1, 13] if number % 2 else [2, 90] for number in range(1, 13)})
    data = prepare(read(tmp_path), observe="single")
    assert data.train.observed.sum() == len(data.train.names) == 10
    assert data.test is not None
    assert data.test.truth is not None
    assert (data.test.truth == 1).sum() == 24


@pytest.mark.parametrize(
    ("piece", "what", "archive"),
    [
        ("annotations/instances_train2014.json", "file: the annotations of train", "annotations/annotations_trainval2014.zip"),
        ("annotations/instances_val2014.json", "file: the annotations of val", "annotations/annotations_trainval2014.zip"),
        ("train2014", "folder: the images of train", "zips/train2014.zip"),
        ("val2014", "folder: the images of val", "zips/val2014.zip"),
    ],
)
def test_a_missing_piece(tmp_path: Path, refusal: Refusal, piece: str, what: str, archive: str) -> None:
    path = write_tree(tmp_path) / piece
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert refusal(tmp_path) == f"{path}: no such {what}; it is in http://images.cocodataset.org/{archive} {PAGE}"


@pytest.mark.parametrize("piece", ["train2014", "val2014", "train2017", "val2017"])
def test_one_piece_is_enough_to_be_told_what_is_missing(pictures: Pictures, refusal: Refusal, piece: str) -> None:
    root = pictures([f"{piece}/1.jpg", "test2014/1.jpg"])
    file = root / "annotations" / f"instances_train{piece[-4:]}.json"
    assert refusal(root).startswith(f"{file}: no such file: the annotations of train; it is in ")


@pytest.mark.parametrize(("part", "split"), [("train", "train"), ("val", "test")])
def test_a_part_without_annotations(tmp_path: Path, refusal: Refusal, part: str, split: str) -> None:
    file = change(write_tree(tmp_path), part, lambda content: content.update(annotations=[]))
    assert refusal(tmp_path) == (
        f"{file}: no annotated images to {split} on; "
        f"it is in http://images.cocodataset.org/annotations/annotations_trainval2014.zip {PAGE}"
    )


def test_a_missing_piece_of_2017(tmp_path: Path, capsys) -> None:
    shutil.rmtree(write_tree(tmp_path, "2017") / "val2017")
    assert refused(capsys, "check", tmp_path) == (
        f"{tmp_path}/val2017: no such folder: the images of val; it is in http://images.cocodataset.org/zips/val2017.zip {PAGE}"
    )


def test_no_piece_at_all(tmp_path: Path, refusal: Refusal) -> None:
    assert refusal(tmp_path, "coco").startswith(f"{tmp_path}/annotations/instances_train2014.json: no such file: the annotations")


def test_annotated_images_that_do_not_exist(tmp_path: Path, refusal: Refusal) -> None:
    for number in (10, 9, 25):  # 25 has no annotation: it is not missed
        (write_tree(tmp_path) if number == 10 else tmp_path).joinpath(f"train2014/COCO_train2014_{number:012d}.jpg").unlink()
    assert refusal(tmp_path) == (
        f"{tmp_path}: 2 of the 4 images that the annotations in instances_train2014.json name do not exist "
        "(train2014/COCO_train2014_000000000010.jpg, train2014/COCO_train2014_000000000009.jpg); unpack the images again, "
        f"completely: it is in http://images.cocodataset.org/zips/train2014.zip {PAGE}"
    )


def test_a_file_cut_short(tmp_path: Path, refusal: Refusal) -> None:
    file = write_tree(tmp_path) / "annotations/instances_val2014.json"
    file.write_text(file.read_text()[:500])
    assert refusal(tmp_path).startswith(f"{file}, line 1: not JSON (")
    assert refusal(tmp_path).endswith("); unpack it again, it may be cut short")
    file.write_bytes(b'{"images": "\xff"}')
    assert refusal(tmp_path) == f"{file}: not UTF-8 text (byte 12); unpack it again"


@pytest.mark.parametrize(
    "edit",
    [
        lambda content: content.pop("annotations"),
        lambda content: content.pop("categories"),
        lambda content: content["images"][0].pop("file_name"),
        lambda content: content["annotations"][0].pop("category_id"),
        lambda content: content["annotations"].append("a captions file"),
    ],
)
def test_not_a_file_of_instances(tmp_path: Path, refusal: Refusal, edit: Callable[[dict[str, Any]], object]) -> None:
    file = change(write_tree(tmp_path), "train", edit)
    assert refusal(tmp_path).startswith(f"{file}: not a file of COCO instances (images with id and file_name, ")


def test_an_id_that_is_no_number(tmp_path: Path, refusal: Refusal) -> None:
    file = write_tree(tmp_path) / "annotations/instances_val2014.json"
    file.write_text(file.read_text().replace('"image_id": 42,', '"image_id": 1e999,'))
    assert refusal(tmp_path).startswith(f"{file}: not a file of COCO instances (")


def test_the_archive_of_2017_is_named(tmp_path: Path, refusal: Refusal) -> None:
    (write_tree(tmp_path, "2017") / "annotations/instances_train2017.json").write_text("{}")
    assert refusal(tmp_path).endswith(f"it is in http://images.cocodataset.org/annotations/annotations_trainval2017.zip {PAGE}")


def test_images_that_the_annotations_do_not_name_are_counted(tmp_path: Path) -> None:
    root = write_tree(tmp_path)
    Image.new("RGB", (9, 9)).save(root / "val2014" / "COCO_val2014_000000000777.jpg")
    assert read(root).notes == (
        "images of train2014 without any annotation, left out: 1",
        "images of val2014 without any annotation, left out: 2",
        "images of val2014 that the file of annotations does not name, left out: 1",
    )


@pytest.mark.parametrize("name", [None, "", " "])
@pytest.mark.parametrize(("key", "field", "what"), [("categories", "name", "category 13"), ("images", "file_name", "image 9")])
def test_no_name(tmp_path: Path, refusal: Refusal, key: str, field: str, what: str, name: str | None) -> None:
    file = change(write_tree(tmp_path), "train", lambda content: content[key][0].update({field: name}))
    assert refusal(tmp_path) == f"{file}: the {what} has no {field}; unpack the file again, or name it"


@pytest.mark.parametrize(
    ("key", "what"),
    [
        ("categories", "category 13 is described twice ('stop sign', 'person')"),
        ("images", "image 9 is described twice ('COCO_train2014_000000000009.jpg', 'COCO_train2014_000000000100.jpg')"),
    ],
)
def test_two_of_one_id(tmp_path: Path, refusal: Refusal, key: str, what: str) -> None:
    file = change(write_tree(tmp_path), "train", lambda content: content[key][1].update(id=content[key][0]["id"]))
    assert refusal(tmp_path) == f"{file}: the {what}; unpack the file again, or remove one"


def test_ids_that_lead_nowhere(tmp_path: Path, refusal: Refusal) -> None:
    file = change(write_tree(tmp_path), "train", lambda content: content["annotations"][0].update(image_id=77))
    assert refusal(tmp_path) == f"{file}: an annotation names the image 77, which the file does not describe; unpack it again"
    change(tmp_path, "train", lambda content: content["annotations"][0].update(image_id=9, category_id=12))
    assert refusal(tmp_path) == f"{file}: an annotation names the category 12, which the file does not describe; unpack it again"


def test_categories_that_differ(tmp_path: Path, refusal: Refusal) -> None:
    file = change(write_tree(tmp_path), "val", lambda content: content["categories"][0].update(name="halt"))
    assert refusal(tmp_path) == (f"{file}: its categories are not those of instances_train2014.json; take both from one release")


def test_what_check_says(tmp_path: Path, capsys) -> None:
    answer = aevlp(capsys, "check", write_tree(tmp_path))
    assert (
        "images of train2014 without any annotation, left out: 1\n"
        "images of val2014 without any annotation, left out: 2\n"
        "\n"
        "COCO 2014       found  expected\n"
        "  train images      4    82,081\n"
        "  test images       2    40,137\n"
        "  classes           4        80\n"
    ) in answer.out


@pytest.mark.parametrize(
    ("key", "name", "what"), [("categories", "name", "category names"), ("images", "file_name", "file names")]
)
def test_two_of_one_name(tmp_path: Path, refusal: Refusal, key: str, name: str, what: str) -> None:
    file = change(write_tree(tmp_path), "train", lambda content: [each.update({name: "x.jpg"}) for each in content[key][:2]])
    assert refusal(tmp_path) == f"{file}: {what} that occur more than once: 1 (x.jpg); give each a name of its own"


def test_a_table_beside_the_images_is_a_table(tmp_path: Path) -> None:
    root = write_tree(tmp_path)
    names = sorted(path.name for path in (root / "train2014").iterdir())
    (root / "labels.csv").write_text(f"image,labels\ntrain2014/{names[0]},dog\ntrain2014/{names[1]},cat\n")
    assert read(root).kind == "table"
    assert read(root, "coco").kind == "coco"
