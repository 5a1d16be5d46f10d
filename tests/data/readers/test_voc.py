"""PASCAL VOC, on miniature trees in the layout of the official archive."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from aevlp.data import prepare, read
from tests.cli.run import aevlp, refused

Refusal = Callable[..., str]

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
SHOWN = {
    "train": {
        "2008_000008": {"horse": 1, "person": 1},
        "2008_000015": {"bottle": 1, "person": 0},  # 0: only difficult ones
        "2008_000019": {"dog": 0},
        "2009_000003": {"tvmonitor": 1, "aeroplane": 1, "train": 1},
    },
    "val": {"2008_000002": {"tvmonitor": 1}, "2008_000003": {"person": 1, "train": 0}},
}
ARCHIVE = (
    "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar (see http://host.robots.ox.ac.uk/pascal/VOC/)"
)
OWN = "describe a set of your own by a table (docs/data.md shows the smallest)"


def write_tree(root: Path, shown: Mapping[str, Mapping[str, Mapping[str, int]]] = SHOWN) -> Path:
    """A VOC2012 folder with the lists, the marks of every class (spaced as they are officially), images and one left over."""
    main = root / "ImageSets" / "Main"
    main.mkdir(parents=True)
    (root / "JPEGImages").mkdir()
    (root / "Annotations").mkdir()
    number = 0
    for part, images in shown.items():
        (main / f"{part}.txt").write_text("".join(f"{name}\n" for name in images))
        for label in CLASSES:
            lines = (f"{name} {marks.get(label, -1):2d}\n" for name, marks in images.items())
            (main / f"{label}_{part}.txt").write_text("".join(lines))
        for name in images:
            number += 1
            Image.new("RGB", (12, 8), (number, 2 * number, 100)).save(root / "JPEGImages" / f"{name}.jpg")
    (main / "trainval.txt").write_text("".join(f"{name}\n" for images in shown.values() for name in images))
    Image.new("RGB", (9, 9)).save(root / "JPEGImages" / "2007_000027.jpg")
    (root / "SegmentationClass").mkdir()
    Image.new("P", (9, 9)).save(root / "SegmentationClass" / "2007_000027.png")
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "VOCdevkit" / "VOC2012")


def positives(path: Path) -> dict[str, set[str]]:
    table = read(path)
    return {
        name: {table.classes[column] for column in np.flatnonzero(row == 1)}
        for name, row in zip(table.names, table.labels, strict=True)
    }


def test_train_trains_and_val_tests_and_difficult_objects_do_not_count(tree: Path) -> None:
    table = read(tree)
    assert (table.kind, table.root, table.classes) == ("voc", tree, CLASSES)
    assert dict(zip(table.names, table.splits, strict=True)) == {
        "JPEGImages/2008_000008.jpg": "train",
        "JPEGImages/2008_000015.jpg": "train",
        "JPEGImages/2008_000019.jpg": "train",
        "JPEGImages/2009_000003.jpg": "train",
        "JPEGImages/2008_000002.jpg": "test",
        "JPEGImages/2008_000003.jpg": "test",
    }
    assert positives(tree) == {
        "JPEGImages/2008_000008.jpg": {"horse", "person"},
        "JPEGImages/2008_000015.jpg": {"bottle"},
        "JPEGImages/2008_000019.jpg": set(),
        "JPEGImages/2009_000003.jpg": {"tvmonitor", "aeroplane", "train"},
        "JPEGImages/2008_000002.jpg": {"tvmonitor"},
        "JPEGImages/2008_000003.jpg": {"person"},
    }
    assert set(np.unique(table.labels)) == {0, 1}
    assert all(path.is_file() for path in table.paths)


def test_the_labels_are_known_to_be_complete(tree: Path) -> None:
    shown = {f"2011_{i:06d}": {CLASSES[i % 20]: 1, "person": 1} for i in range(10)}
    data = prepare(read(write_tree(tree.parent / "other", {"train": shown, "val": SHOWN["val"]})))
    assert set(np.unique(data.train.observed)) == {0, 1}
    assert data.train.truth is not None
    assert np.array_equal(data.train.truth == 1, data.train.observed == 1)
    assert set(np.unique(data.train.truth)) == {-1, 1}
    assert data.val.truth is not None


@pytest.mark.parametrize("above", [0, 1, 2])
def test_the_tree_is_found_from_above(tree: Path, above: int) -> None:
    path = [tree, tree.parent, tree.parent.parent][above]
    assert read(path).root == tree


def test_2012_before_2007_unless_it_is_named(tree: Path) -> None:
    older = write_tree(tree.parent / "VOC2007", {"train": {"000012": {"car": 1}}, "val": {"000005": {"chair": 1}}})
    assert read(tree.parent).root == tree
    assert read(older).names == ("JPEGImages/000012.jpg", "JPEGImages/000005.jpg")
    shutil.rmtree(tree)
    assert read(tree.parent.parent).root == older


def test_images_in_neither_list_are_counted(tree: Path) -> None:
    assert read(tree).notes == (f"images of {tree}/JPEGImages in neither list, left out: 1",)
    (tree / "JPEGImages/2007_000027.jpg").unlink()
    assert read(tree).notes == ()


@pytest.mark.parametrize(
    ("piece", "what"),
    [
        ("ImageSets/Main/train.txt", "file: the list of train images"),
        ("ImageSets/Main/val.txt", "file: the list of val images"),
        ("ImageSets/Main/sofa_val.txt", "file: the marks of the class sofa"),
        ("JPEGImages", "folder: the images"),
    ],
)
def test_a_missing_piece(tree: Path, refusal: Refusal, piece: str, what: str) -> None:
    path = tree / piece
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert refusal(tree.parent) == f"{path}: no such {what}; it is in {ARCHIVE}"


@pytest.mark.parametrize("beside", [("Annotations", "SegmentationClass"), ("SegmentationClass",), ()])
def test_images_without_the_lists(tree: Path, refusal: Refusal, beside: tuple[str, ...]) -> None:
    for folder in {"ImageSets", "Annotations", "SegmentationClass"}.difference(beside):
        shutil.rmtree(tree / folder)
    for path in (tree, tree.parent.parent):
        assert refusal(path) == f"{tree}/ImageSets/Main: no such folder: the lists of images; it is in {ARCHIVE}; {OWN}"


def test_lists_without_the_images(tree: Path, refusal: Refusal) -> None:
    for folder in ("JPEGImages", "Annotations", "SegmentationClass"):
        shutil.rmtree(tree / folder)
    assert refusal(tree) == f"{tree}/JPEGImages: no such folder: the images; it is in {ARCHIVE}"


def test_a_set_of_ones_own_in_the_folders_of_voc(tree: Path, refusal: Refusal) -> None:
    main = tree / "ImageSets/Main"
    for file in main.glob("*_*.txt"):
        file.unlink()
    (main / "val.txt").unlink()
    (main / "apple_train.txt").touch()
    assert refusal(tree) == (
        f"{main}: these are not PASCAL VOC's own lists: none is of its 20 classes (aeroplane_train.txt, ...); {OWN}"
    )


def test_the_lists_of_vocs_own_test_set_are_its_own(tree: Path, refusal: Refusal) -> None:
    main = tree / "ImageSets/Main"
    for file in main.glob("*.txt"):
        file.rename(main / f"{file.stem.removesuffix('val').removesuffix('train')}test.txt")
    assert refusal(tree) == f"{main}/train.txt: no such file: the list of train images; it is in {ARCHIVE}"


@pytest.mark.parametrize(("part", "split"), [("train", "train"), ("val", "test")])
def test_an_empty_list(tree: Path, refusal: Refusal, part: str, split: str) -> None:
    file = tree / f"ImageSets/Main/{part}.txt"
    file.write_text("\n")
    assert refusal(tree) == f"{file}: no images to {split} on; it is in {ARCHIVE}"


@pytest.mark.parametrize("inside", [True, False])
def test_a_missing_piece_of_2007_is_in_another_archive(
    tree: Path, refusal: Refusal, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    older = tree.rename(tree.parent / "VOC2007")
    (older / "ImageSets/Main/train.txt").unlink()
    monkeypatch.chdir(older)
    message = refusal(Path() if inside else older)
    assert "it is in http://host.robots.ox.ac.uk/pascal/VOC/voc2007/VOCtrainval_06-Nov-2007.tar (see" in message


def test_no_tree_at_all(tmp_path: Path, refusal: Refusal) -> None:
    assert refusal(tmp_path, "voc") == (
        f"{tmp_path}: no VOC tree (ImageSets/Main, JPEGImages); looked for it in {tmp_path}, {tmp_path}/VOC2012, "
        f"{tmp_path}/VOC2007, {tmp_path}/VOCdevkit/VOC2012, {tmp_path}/VOCdevkit/VOC2007; it is in {ARCHIVE}"
    )


def test_listed_images_that_do_not_exist(tree: Path, refusal: Refusal) -> None:
    for name in ("2008_000008", "2008_000003"):
        (tree / "JPEGImages" / f"{name}.jpg").unlink()
    assert refusal(tree) == (
        f"{tree}: 2 of the 6 images that the lists of {tree}/ImageSets/Main name do not exist (JPEGImages/2008_000008.jpg, "
        f"JPEGImages/2008_000003.jpg); unpack the images again, completely: it is in {ARCHIVE}"
    )


def test_a_mark_that_is_none(tree: Path, refusal: Refusal) -> None:
    file = tree / "ImageSets/Main/cat_train.txt"
    file.write_text(file.read_text().replace("2008_000015 -1", "2008_000015  2"))
    assert refusal(tree) == f"{file}, line 2: '2008_000015  2' is not an image's name and 1, 0 or -1; it is in {ARCHIVE}"


def test_an_image_with_two_marks(tree: Path, refusal: Refusal) -> None:
    file = tree / "ImageSets/Main/cat_train.txt"
    marks = file.read_text()
    file.write_text(f"{marks}2008_000015 -1\n")
    assert len(read(tree).names) == 6  # said twice, but not otherwise
    file.write_text(f"{marks}2008_000015  1\n")
    assert refusal(tree) == f"{file}, line 5: 1 for '2008_000015', but -1 before; it is in {ARCHIVE}"


def test_an_image_without_a_mark(tree: Path, refusal: Refusal) -> None:
    file = tree / "ImageSets/Main/cat_train.txt"
    file.write_text("2008_000008 -1\n")
    assert refusal(tree) == f"{file}: 3 of the 4 listed images are not in it (2008_000015, ...); it is in {ARCHIVE}"


def test_an_image_that_is_trained_and_tested_on(tree: Path, refusal: Refusal) -> None:
    file = tree / "ImageSets/Main/val.txt"
    file.write_text("2008_000002\n2008_000008\n")
    assert refusal(tree) == (
        f"{file}: images that occur more than once: 1 (2008_000008); list each image once, in train.txt or in val.txt"
    )


def test_what_check_says(tree: Path, capsys) -> None:
    (tree / "JPEGImages/2007_000027.jpg").write_bytes(b"")  # not in the set, so not looked at
    answer = aevlp(capsys, "check", tree.parent.parent)
    assert answer.code == 2  # too few to train on
    assert f"{tree.parent.parent}: voc, 6 images, 20 classes\n" in answer.out
    assert (
        f"images of {tree}/JPEGImages in neither list, left out: 1\n"
        "\n"
        "PASCAL VOC 2012           found  expected\n"
        "  train images                4     5,717\n"
        "  test images                 2     5,823\n"
        "  classes                    20        20\n"
        "  labels per train image  1.500     1.457\n"
        "  labels per test image   1.000     1.434\n"
        "differs from the set that the field reports on (train images, test images, labels per train image, "
        "labels per test image): a subset or another edition is fine, but its results do not compare with published ones\n"
    ) in answer.out


def test_a_missing_piece_on_the_command_line(tree: Path, capsys) -> None:
    (tree / "ImageSets/Main/dog_train.txt").unlink()
    assert refused(capsys, "check", tree) == (
        f"{tree}/ImageSets/Main/dog_train.txt: no such file: the marks of the class dog; it is in {ARCHIVE}"
    )
