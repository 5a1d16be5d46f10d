"""COCO: what pycocotools answers, and the sizes of the images."""

import json
import struct

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO  # type: ignore[import-untyped]

from aevlp.core.errors import UserError
from aevlp.data.images import open_rgb
from aevlp.inference.completion.formats import LABEL_FORMATS, LabelFile
from aevlp.inference.completion.formats.coco import AT_A_TIME, upright_size
from tests.inference.completion.examples import ANN, BOB, CLASSES, RECORDS, record


@pytest.fixture
def coco(written) -> COCO:
    return COCO(str(written("coco")))


def test_images_and_categories_are_those_of_the_set(coco, tmp_path, photos):
    assert [coco.cats[index]["name"] for index in (1, 2, 3, 4)] == list(CLASSES)
    assert coco.getImgIds() == [1, 2, 3, 4, 5, 6]
    for number, image in enumerate(RECORDS, 1):
        found = coco.loadImgs(number)[0]
        assert (tmp_path / "out" / found["file_name"]).samefile(photos / image.name)
        assert (found["width"], found["height"], found["split"]) == (10 * number, 7, image.split)


def test_questions_are_answered(coco):
    category = {entry["name"]: entry["id"] for entry in coco.loadCats(coco.getCatIds())}
    assert coco.getCatIds(catNms=["née <b>"]) == [3]
    assert set(coco.getImgIds(catIds=[category["apple"]])) == {1, 3, 5, 6}
    assert coco.getImgIds(catIds=[category["nobody"]]) == []
    assert set(coco.getImgIds(catIds=[category["apple"], category["née <b>"]])) == {1, 3, 6}
    assert coco.getAnnIds(imgIds=[4]) == []
    assert coco.loadImgs(2)[0]["neg_category_ids"] == [category["apple"]]  # zebra is only proposed to be absent
    assert [(image["complete"], image["answers"]) for image in coco.loadImgs([2, 6])] == [
        (False, []),
        (True, [{"category_id": 4, "by": BOB.who, "at": BOB.at}, {"by": BOB.who, "at": BOB.at}]),
    ]


def test_annotations_say_their_state_and_how_sure_the_proposed_ones_are(coco):
    zebra, apple, other = coco.loadAnns(coco.getAnnIds(imgIds=[1]))
    whole = {"image_id": 1, "bbox": [0, 0, 10, 7], "area": 70, "iscrowd": 0}
    assert zebra == {
        **whole,
        **{"id": 1, "category_id": 1, "score": 1.0, "state": "observed", "doubted": 0.04, "teacher": 0.05, "model": 0.03},
    }
    assert apple == {**whole, "id": 2, "category_id": 2, "score": 0.93, "state": "proposed", "teacher": 0.9, "model": 0.95}
    assert (other["id"], other["category_id"], other["score"]) == (3, 3, 0.81)
    [plain] = coco.loadAnns(coco.getAnnIds(imgIds=[5]))
    assert (plain["id"], plain["image_id"], plain["bbox"], plain["score"]) == (6, 5, [0, 0, 50, 7], 1.0)
    assert set(plain) == {"id", "image_id", "category_id", "bbox", "area", "iscrowd", "score", "state"}
    accepted = coco.loadAnns(coco.getAnnIds(imgIds=[6], catIds=[1]))[0]
    assert {key: accepted[key] for key in ("score", "state", "by", "at", "doubted", "teacher")} == {
        **{"score": 1.0, "state": "accepted", "by": ANN.who, "at": ANN.at, "doubted": 0.1, "teacher": 0.1},
    }


def test_boxes_evaluate_as_detections(coco, capsys):
    detections = [{key: value for key, value in coco.anns[2].items() if key in ("image_id", "category_id", "bbox", "score")}]
    assert coco.loadRes(detections).getAnnIds() == [1]


def test_images_are_in_order_and_numbered_on_across_batches(written, photos):
    Image.new("RGB", (3, 2)).save(photos / "small.png")
    names = ["small.png", "nothing.png"] * AT_A_TIME
    found = json.loads(written("coco", records=[record(name, observed=["apple"]) for name in names]).read_text())
    assert [image["id"] for image in found["images"]] == list(range(1, len(names) + 1))
    assert [image["width"] for image in found["images"]] == [3, 40] * AT_A_TIME
    assert [(a["id"], a["image_id"]) for a in found["annotations"]] == [(n, n) for n in range(1, len(names) + 1)]


@pytest.mark.parametrize(("orientation", "size"), [(1, (6, 4)), (3, (6, 4)), (6, (4, 6)), (8, (4, 6))])
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
def test_sizes_are_those_of_the_upright_image(suffix, orientation, size, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.new("RGB", (6, 4)).save(tmp_path / f"x.{suffix}", exif=exif)
    assert upright_size(tmp_path / f"x.{suffix}") == size == open_rgb(tmp_path / f"x.{suffix}").size


def test_orientation_behind_the_pixels_of_a_png_counts_too(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (6, 4)).save(tmp_path / "x.png", exif=exif)
    data, chunks, at = (tmp_path / "x.png").read_bytes(), {}, 8
    while at < len(data):
        end = at + 12 + struct.unpack(">I", data[at : at + 4])[0]
        chunks[data[at + 4 : at + 8]] = data[at:end]
        at = end
    moved = [chunk for kind, chunk in chunks.items() if kind not in (b"eXIf", b"IEND")] + [chunks[b"eXIf"], chunks[b"IEND"]]
    (tmp_path / "x.png").write_bytes(data[:8] + b"".join(moved))
    assert upright_size(tmp_path / "x.png") == (4, 6) == open_rgb(tmp_path / "x.png").size


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_broken_metadata_is_no_obstacle(tmp_path):
    Image.fromarray(np.zeros((4, 6, 3), np.uint8)).save(tmp_path / "x.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff")
    assert upright_size(tmp_path / "x.jpg") == (6, 4)


@pytest.mark.parametrize("content", [None, b"", b"no image"])
def test_image_that_cannot_be_read_any_more_is_named(content, photos, tmp_path):
    image = photos / RECORDS[1].name
    image.unlink()
    if content is not None:
        image.write_bytes(content)
    with pytest.raises(UserError, match="replace or remove the file") as caught:
        LABEL_FORMATS["coco"].write(LabelFile(tmp_path / "x.json", photos, CLASSES), RECORDS)
    assert str(caught.value).startswith(f"{image}: ")
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == set()
