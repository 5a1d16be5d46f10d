"""NUS-WIDE in its official layout, made small: five training images, three to test on, three concepts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aevlp.data import prepare, read
from aevlp.data.benchmarks import NUS
from aevlp.data.load import DataOptions, load

Pictures = Callable[[list[str]], Path]
Refusal = Callable[..., str]

PAGE = "https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html"
CONCEPTS = ("airport", "zebra", "animal")  # not the alphabet's order
LABELS = {
    "actor/0001_2124494179.jpg": ("Train", (0, 1, 1)),
    "actor/0002_174174086.jpg": ("Test", (0, 0, 0)),
    "zoo/0003_17.jpg": ("Train", (0, 0, 0)),
    "zoo/0001_5.jpg": ("Train", (1, 0, 0)),
    "actor/0009_1.jpg": ("Test", (1, 1, 1)),
    "zoo/0002_99.jpg": ("Train", (0, 0, 1)),
    "zoo/0008_8.jpg": ("Test", (0, 1, 0)),
    "zoo/0007_7.jpg": ("Train", (1, 1, 0)),
}
TRAIN = [name for name, (part, _) in LABELS.items() if part == "Train"]
TEST = [name for name, (part, _) in LABELS.items() if part == "Test"]


def backslashed(names, end: str) -> str:
    return "".join(name.replace("/", "\\") + end for name in names)


@pytest.fixture
def nus(pictures: Pictures) -> Path:
    """The complete content of the archives, unpacked."""
    root = pictures([f"Flickr/{name}" for name in LABELS])
    for folder in ("ImageList", "ConceptsList", "Groundtruth/AllLabels", "Groundtruth/TrainTestLabels"):
        (root / folder).mkdir(parents=True)
    (root / "ConceptsList" / "Concepts81.txt").write_text("".join(f"{name}\r\n" for name in CONCEPTS))
    # The lists of the parts need not be in the order of the list of all.
    (root / "ImageList" / "Imagelist.txt").write_text(backslashed(LABELS, "\r\n"))
    (root / "ImageList" / "TrainImagelist.txt").write_text(backslashed(reversed(TRAIN), "\n"))
    (root / "ImageList" / "TestImagelist.txt").write_text(backslashed(TEST, " \n"))
    for column, concept in enumerate(CONCEPTS):
        everything = "".join(f"{marks[column]}\r\n" for _, marks in LABELS.values())
        (root / "Groundtruth" / "AllLabels" / f"Labels_{concept}.txt").write_text(everything)
        for part, names in (("Train", [*reversed(TRAIN)]), ("Test", TEST)):
            text = "".join(f"{LABELS[name][1][column]}\n" for name in names)
            (root / "Groundtruth" / "TrainTestLabels" / f"Labels_{concept}_{part}.txt").write_text(text)
    return root


def remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()


def assert_whole(root: Path) -> None:
    table = read(root)
    assert table.kind == "nus"
    assert table.classes == CONCEPTS
    assert table.names == tuple(f"Flickr/{name}" for name in [*reversed(TRAIN), *TEST])
    assert table.splits == ("train",) * 5 + ("test",) * 3
    assert table.truth is not None
    for name, labels, truth in zip(table.names, table.labels.tolist(), table.truth.tolist(), strict=True):
        marks = LABELS[name.removeprefix("Flickr/")][1]
        assert tuple(labels) == marks
        assert truth == [1 if mark else -1 for mark in marks]
    assert table.notes == ()
    assert all(path.is_file() for path in table.paths)


def test_the_official_layout(nus: Path) -> None:
    assert_whole(nus)


def test_the_labels_of_all_images_serve_without_those_of_the_parts(nus: Path) -> None:
    remove(nus / "Groundtruth" / "TrainTestLabels")
    assert_whole(nus)


def test_the_labels_of_the_parts_serve_alone(nus: Path) -> None:
    remove(nus / "Groundtruth" / "AllLabels")
    (nus / "ImageList" / "Imagelist.txt").unlink()
    assert_whole(nus)


def test_archives_may_be_unpacked_without_their_folders(nus: Path) -> None:
    for name in (
        "ConceptsList/Concepts81.txt",
        "ImageList/TrainImagelist.txt",
        "ImageList/TestImagelist.txt",
        "Groundtruth/AllLabels",
    ):
        (nus / name).rename(nus / Path(name).name)
    remove(nus / "Groundtruth" / "TrainTestLabels")
    (nus / "ImageList" / "Imagelist.txt").rename(nus / "Imagelist.txt")
    assert_whole(nus)


def test_rows_without_positives_are_trained_on_and_tested_on(nus: Path) -> None:
    data = prepare(read(nus), observe="single")
    assert data.test is not None
    assert data.test.truth is not None
    assert data.train.truth is not None
    assert data.val.truth is not None
    assert (data.test.truth == -1).all(axis=1).sum() == 1
    assert (np.concatenate([data.train.truth, data.val.truth]) == -1).all(axis=1).sum() == 1


def test_without_the_file_of_concepts_the_official_81_are_looked_for(nus: Path, refusal: Refusal) -> None:
    (nus / "ConceptsList" / "Concepts81.txt").unlink()
    message = refusal(nus)
    assert f"{nus}/Groundtruth/TrainTestLabels/Labels_beach_Train.txt: no such file: the labels of a concept; " in message
    for concept in NUS.classes:
        (nus / "Groundtruth" / "TrainTestLabels" / f"Labels_{concept}_Train.txt").write_text("0\n1\n1\n0\n0\n")
        (nus / "Groundtruth" / "TrainTestLabels" / f"Labels_{concept}_Test.txt").write_text("0\n1\n1\n")
    table = read(nus)
    assert table.classes == NUS.classes
    assert table.notes == (f"{nus}/ConceptsList/Concepts81.txt is not there: its 81 official names are used",)


def test_images_that_are_gone_are_for_bad_images_to_decide(nus: Path) -> None:
    (nus / "Flickr" / TRAIN[0]).unlink()
    (nus / "Flickr" / TEST[1]).unlink()
    table = read(nus)
    assert len(table.names) == 8
    assert table.notes == (f"2 of the 8 listed images are not in {nus}/Flickr",)
    with pytest.raises(
        Exception, match=r"2 of 8 images cannot be read \(Flickr/actor/0001_2124494179.jpg: no such file.*--bad-im"
    ):
        load(nus, DataOptions(), None)
    data = load(nus, DataOptions(bad_images="skip", observe="single"), None)
    assert data.test is not None
    assert data.test.names == (f"Flickr/{TEST[0]}", f"Flickr/{TEST[2]}")
    assert len(data.train.names) + len(data.val.names) == 4


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        ("ImageList/TrainImagelist.txt", "no such file: a list of images; it is in ImageList.zip"),
        ("ImageList/TestImagelist.txt", "no such file: a list of images; it is in ImageList.zip"),
        ("Groundtruth/TrainTestLabels/Labels_zebra_Test.txt", "no such file: the labels of a concept; it is in Groundtruth.zip"),
    ],
)
def test_a_missing_file(nus: Path, refusal: Refusal, piece: str, message: str) -> None:
    (nus / piece).unlink()
    assert refusal(nus) == f"{nus / piece}: {message} (see {PAGE})"


def test_missing_folders(nus: Path, refusal: Refusal) -> None:
    for folder in ("TrainTestLabels", "AllLabels"):
        remove(nus / "Groundtruth" / folder)
    assert refusal(nus) == (
        f"{nus}/Groundtruth/AllLabels: no such folder: the labels, unless there is {nus}/Groundtruth/TrainTestLabels; "
        f"it is in Groundtruth.zip (see {PAGE})"
    )


def test_no_images_at_all(nus: Path, refusal: Refusal) -> None:
    (nus / "Flickr").rename(nus / "photos")
    start = f"{nus}/Flickr: no such folder: the images; it is in the archive of images sent on request (Flickr/) (see {PAGE})"
    assert refusal(nus) == start
    (nus / "Flickr").mkdir()
    assert f"{nus}/Flickr: none of the 8 listed images is there (zoo/0007_7.jpg, " in refusal(nus)


def test_images_that_are_all_spelt_otherwise(nus: Path, refusal: Refusal) -> None:
    for name in LABELS:
        (nus / "Flickr" / name).rename((nus / "Flickr" / name).with_suffix(".JPG"))
    assert "; there is 0007_7.JPG: rename such files, or unpack the images: it is in the archive of images sent" in refusal(nus)


@pytest.mark.parametrize(("part", "split"), [("Train", "train"), ("Test", "test")])
def test_an_empty_list(nus: Path, refusal: Refusal, part: str, split: str) -> None:
    file = nus / "ImageList" / f"{part}Imagelist.txt"
    file.write_text("\r\n")
    for concept in CONCEPTS:
        (nus / "Groundtruth" / "TrainTestLabels" / f"Labels_{concept}_{part}.txt").write_text("")
    assert refusal(nus) == f"{file}: no images to {split} on; it is in ImageList.zip (see {PAGE})"


def test_no_concepts(nus: Path, refusal: Refusal) -> None:
    file = nus / "ConceptsList" / "Concepts81.txt"
    file.write_text("\n")
    assert refusal(nus) == f"{file}: no concepts in it; it is in ConceptsList.zip (see {PAGE})"


def test_labels_that_do_not_fit_the_list(nus: Path, refusal: Refusal) -> None:
    file = nus / "Groundtruth" / "TrainTestLabels" / "Labels_zebra_Train.txt"
    file.write_text("0\n1\n0\n")
    assert refusal(nus) == f"{file}: 3 labels, but 5 images are listed; it is in Groundtruth.zip (see {PAGE})"
    for wrong in ("0\n1\n-1\n0\n", "01\n\n1\n0\n", "0\n1\n2\n0\n"):
        file.write_text(wrong)
        assert refusal(nus).startswith(f"{file}: must have one 0 or 1 per line and nothing else; ")


def test_an_image_listed_twice(nus: Path, refusal: Refusal) -> None:
    (nus / "ImageList" / "TestImagelist.txt").write_text(backslashed([TEST[0], TEST[1], TRAIN[0]], "\n"))
    lists = f"{nus}: TrainImagelist.txt and TestImagelist.txt"
    assert refusal(nus).startswith(f"{lists}: images that occur more than once: 1 ({TRAIN[0]}); it is in ImageList.zip")


def test_an_image_twice_in_the_list_of_all(nus: Path, refusal: Refusal) -> None:
    remove(nus / "Groundtruth" / "TrainTestLabels")
    file = nus / "ImageList" / "Imagelist.txt"
    file.write_text(backslashed([TEST[0], *LABELS], "\n"))
    for concept in CONCEPTS:
        labels = nus / "Groundtruth" / "AllLabels" / f"Labels_{concept}.txt"
        labels.write_text("0\n" + labels.read_text())
    assert refusal(nus).startswith(f"{file}: images that occur more than once: 1 ({TEST[0]}); it is in ImageList.zip")


def test_an_image_of_a_part_that_the_list_of_all_lacks(nus: Path, refusal: Refusal) -> None:
    remove(nus / "Groundtruth" / "TrainTestLabels")
    file = nus / "ImageList" / "Imagelist.txt"
    file.write_text(backslashed(list(LABELS)[1:], "\n"))
    message = refusal(nus)
    assert message.startswith(f"{file}: 1 of the 8 images to train and test on are not in it ({TRAIN[0]}); ")


def test_a_concept_named_twice(nus: Path, refusal: Refusal) -> None:
    (nus / "ConceptsList" / "Concepts81.txt").write_text("zebra\nairport\nzebra\n")
    assert "Concepts81.txt: concepts that occur more than once: 1 (zebra); it is in ConceptsList.zip" in refusal(nus)
