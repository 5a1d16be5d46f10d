"""CUB-200-2011 in its official layout, made small: six images, three attributes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aevlp.data import prepare, read
from aevlp.data.benchmarks import CUB

Pictures = Callable[[list[str]], Path]
Refusal = Callable[..., str]

SOURCE = "it is in CUB_200_2011.tgz (see https://www.vision.caltech.edu/datasets/cub_200_2011/)"
ATTRIBUTES = ("has_bill_shape::curved_(up_or_down)", "has_bill_shape::dagger", "has_size::large_(16_-_32_in)")
IMAGES = {  # by id, which is not the order of the lines below
    1: ("001.Black_footed_Albatross/B_0046_18.jpg", 0, (0, 1, 0)),
    2: ("001.Black_footed_Albatross/B_0009_34.jpg", 1, (1, 1, 1)),
    3: ("002.Laysan_Albatross/L_0002_1027.jpg", 0, (0, 0, 0)),
    4: ("002.Laysan_Albatross/L_0003_1033.jpg", 1, (0, 0, 1)),
    7: ("003.Sooty_Albatross/S_0001_0.jpg", 1, (1, 0, 0)),
    10: ("003.Sooty_Albatross/S_0002_0.jpg", 0, (0, 1, 1)),
}


@pytest.fixture
def cub(pictures: Pictures) -> Path:
    """The folder that the archive unpacks to."""
    parent = pictures([f"CUB_200_2011/images/{name}" for name, _, _ in IMAGES.values()])
    root = parent / "CUB_200_2011"
    (root / "attributes").mkdir()
    (root / "classes.txt").write_text("1 001.Black_footed_Albatross\n2 002.Laysan_Albatross\n3 003.Sooty_Albatross\n")
    (parent / "attributes.txt").write_text("".join(f"{id} {ATTRIBUTES[id - 1]}\n" for id in (2, 1, 3)))
    (root / "images.txt").write_text("".join(f"{id} {IMAGES[id][0]}\n" for id in (7, 1, 10, 2, 4, 3)))
    (root / "train_test_split.txt").write_text("".join(f"{id} {IMAGES[id][1]}\r\n" for id in reversed(IMAGES)))
    lines = []
    for id, (_, _, marks) in IMAGES.items():
        for attribute, mark in enumerate(marks, 1):
            certainty = (id + attribute) % 4 + 1  # 1: not visible, 4: definitely
            extra = " 0" if (id, attribute) in ((2, 1), (4, 3)) else ""  # such lines are in the official file
            lines.append(f"{id} {attribute} {mark} {certainty}{extra} 27.7{id}80\n")
    (root / "attributes" / "image_attribute_labels.txt").write_text("".join(lines))
    return root


def assert_whole(path: Path) -> None:
    table = read(path)
    assert table.kind == "cub"
    assert table.classes == ATTRIBUTES
    assert table.names == tuple(f"images/{name}" for name, _, _ in IMAGES.values())
    assert table.splits == tuple("train" if mark else "test" for _, mark, _ in IMAGES.values())
    assert table.labels.tolist() == [list(marks) for _, _, marks in IMAGES.values()]
    assert table.truth is not None
    assert table.truth.tolist() == [[1 if mark else -1 for mark in marks] for _, _, marks in IMAGES.values()]
    assert table.notes == ()
    assert all(place.is_file() for place in table.paths)


def test_the_official_layout_whatever_the_certainty_and_the_columns_after_it(cub: Path) -> None:
    assert_whole(cub)
    assert_whole(cub.parent)


def test_the_folder_may_be_the_one_that_the_user_is_in(cub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cub)
    assert_whole(Path())


def test_the_archive_may_be_unpacked_in_a_folder_of_its_own_name(cub: Path) -> None:
    outer = cub.parent / "outer" / "CUB_200_2011"
    outer.mkdir(parents=True)
    (cub.parent / "attributes.txt").rename(outer / "attributes.txt")
    cub.rename(outer / "CUB_200_2011")
    assert_whole(outer)
    assert_whole(outer.parent)


@pytest.mark.parametrize("place", ["attributes.txt", "attributes/attributes.txt"])
def test_the_names_of_the_attributes_may_lie_in_the_folder(cub: Path, place: str) -> None:
    (cub.parent / "attributes.txt").rename(cub / place)
    assert_whole(cub)


def test_without_a_file_of_attributes_the_official_names_are_used(cub: Path) -> None:
    (cub.parent / "attributes.txt").unlink()
    table = read(cub)
    assert table.classes == CUB.classes
    assert table.labels[:, :3].tolist() == [list(marks) for _, _, marks in IMAGES.values()]
    assert not table.labels[:, 3:].any()
    assert table.notes == (f"attributes.txt is neither in {cub} nor beside it: its 312 official names are used",)


def test_a_byte_order_mark(cub: Path) -> None:
    for file in (cub / LABELS, cub / "images.txt", cub / "train_test_split.txt", cub.parent / "attributes.txt"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert_whole(cub)


@pytest.mark.filterwarnings("error")
def test_a_file_of_labels_without_lines_is_not_warned_of_but_refused(cub: Path, refusal: Refusal) -> None:
    (cub / LABELS).write_text("\n\n")
    assert refusal(cub) == f"{cub / LABELS}: an empty file; {SOURCE}"


def test_labels_that_cannot_be_read_for_no_line_that_is_found(cub: Path, refusal: Refusal, monkeypatch) -> None:
    def unreadable(*args, **kwargs):
        raise ValueError

    monkeypatch.setattr("numpy.loadtxt", unreadable)
    assert refusal(cub) == f"{cub / LABELS}: a line does not begin with an image, an attribute and 0 or 1; {SOURCE}"


def test_a_file_that_is_cut_short_within_an_image(cub: Path, refusal: Refusal) -> None:
    file = cub / LABELS
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert "fewer lines than for other images, or none, for 1 of the 6 (003.Sooty_Albatross/S_0002_0.jpg); " in refusal(cub)


def test_an_image_without_any_attribute_stays(cub: Path) -> None:
    test = prepare_test(cub)
    assert (test == -1).all(axis=1).sum() == 1


def prepare_test(path: Path):
    (path / "train_test_split.txt").write_text("".join(f"{id} {int(id != 3)}\n" for id in IMAGES))
    data = prepare(read(path), observe="single")
    assert data.test is not None
    return data.test.truth


@pytest.mark.parametrize(
    ("piece", "what"),
    [
        ("images.txt", "the names of the images"),
        ("train_test_split.txt", "the official split"),
        ("attributes/image_attribute_labels.txt", "the attributes of the images"),
    ],
)
def test_a_missing_file(cub: Path, refusal: Refusal, piece: str, what: str) -> None:
    (cub / piece).unlink()
    assert refusal(cub.parent) == f"{cub / piece}: no such file: {what}; {SOURCE}"


def test_two_missing_files_of_the_folder_that_the_user_is_in(
    cub: Path, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cub / "train_test_split.txt").unlink()
    (cub / LABELS).unlink()
    monkeypatch.chdir(cub)
    assert refusal(Path()) == f"train_test_split.txt: no such file: the official split; {SOURCE}"


def test_missing_images(cub: Path, refusal: Refusal) -> None:
    (cub / "images" / IMAGES[4][0]).unlink()
    message = refusal(cub)
    assert message.startswith(f"{cub}: 1 of the 6 images that {cub}/images.txt names do not exist (images/{IMAGES[4][0]}); ")
    assert message.endswith(SOURCE)
    (cub / "images").rename(cub / "pictures")
    assert refusal(cub) == f"{cub}/images: no such folder: the images; {SOURCE}"


def test_no_such_tree(tmp_path: Path, refusal: Refusal) -> None:
    assert refusal(tmp_path, "cub") == (
        f"{tmp_path}: no CUB tree (images.txt, attributes/image_attribute_labels.txt); looked for it in {tmp_path}, "
        f"{tmp_path}/CUB_200_2011, {tmp_path}/CUB_200_2011/CUB_200_2011; {SOURCE}"
    )


LABELS = "attributes/image_attribute_labels.txt"


@pytest.mark.parametrize(
    ("piece", "text", "message"),
    [
        ("images.txt", "1 a.jpg\nzwei b.jpg\n", "images.txt, line 2: 'zwei b.jpg' is not a number and a text; "),
        ("images.txt", "1 a.jpg\n\n1 b.jpg\n", "images.txt, line 3: the number 1 is there twice; "),
        ("images.txt", "1 a.jpg\n2 a.jpg\n", "images.txt: names that occur more than once: 1 (a.jpg); "),
        ("images.txt", "\n", "images.txt: an empty file; "),
        ("train_test_split.txt", "1 1\n2 5\n", "neither 1 (train) nor 0 (test) for 5 of the images (001.Black_footed_Alb"),
        ("train_test_split.txt", "".join(f"{id} 1\n" for id in IMAGES), "train_test_split.txt: no images to test on; "),
        ("train_test_split.txt", "".join(f"{id} 0\n" for id in IMAGES), "train_test_split.txt: no images to train on; "),
        (LABELS, "", "image_attribute_labels.txt: an empty file; "),
        (LABELS, "\n \n", "image_attribute_labels.txt: an empty file; "),
        (LABELS, "1 2 0 1 2\n2 3 1 1 2\n2 3 1 1 2\n", "labels.txt: 2 lines for image 2 and attribute 3, not one; "),
        (LABELS, "1 1 0 1 2.5\n\n1 2\n", "image_attribute_labels.txt, line 3: '1 2' does not begin with an image, an attribute "),
        (
            LABELS,
            "1 1 0 1 2.5\n1 2 yes 3\n",
            "labels.txt, line 2: '1 2 yes 3' does not begin with an image, an attribute and 0 or",
        ),
        (LABELS, "1 1 2 1 2.5\n", "image_attribute_labels.txt: image 1 has 2 for attribute 1, not 0 or 1; "),
        (LABELS, "5 1 1 1 2.5\n", "image_attribute_labels.txt: image 5 is not in images.txt; "),
        (LABELS, "11 1 1 1 2.5\n", "image_attribute_labels.txt: image 11 is not in images.txt; "),
        (LABELS, "99999999999 1 1 1 2.5\n", "labels.txt, line 1: '99999999999 1 1 1 2.5' does not begin with an image, "),
        (LABELS, "1 4 1 1 2.5\n", "image_attribute_labels.txt: attribute 4 is not in attributes.txt; "),
        (
            LABELS,
            "1 1 1 1 2.5\n2 1 1 1 2.5\n",
            "labels.txt: fewer lines than for other images, or none, for 4 of the 6 (002.Laysan_Albatross/L_0002_1027.jpg, ",
        ),
    ],
)
def test_a_damaged_file(cub: Path, refusal: Refusal, piece: str, text: str, message: str) -> None:
    (cub / piece).write_text(text)
    found = refusal(cub)
    assert message in found
    assert found.endswith(SOURCE)
