"""Formatted .npy files, as the scripts of the field write them: float64 labels, names as a text array."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from aevlp.core.errors import UserError
from aevlp.data import prepare, read
from aevlp.data.dataset import single_positives
from tests.cli.run import aevlp, refused

Refusal = Callable[..., str]

NAMES = {"train": [f"2008_{i:06d}.jpg" for i in (8, 15, 19, 23, 28, 33)], "val": ["2008_000002.jpg", "2008_000003.jpg"]}
VOC_FOLDER = "VOCdevkit/VOC2012/JPEGImages"
SOURCE = "such files are made by https://github.com/elijahcole/single-positive-multi-label (preproc/)"


def full_labels(classes: int) -> dict[str, np.ndarray]:
    rng = np.random.RandomState(3)
    labels = {part: (rng.rand(len(names), classes) < 0.3).astype(np.float64) for part, names in NAMES.items()}
    for matrix in labels.values():
        matrix[:, 1] = 1
    return labels


def write_set(root: Path, classes: int = 20, folder: str = VOC_FOLDER, *, observed: bool = True) -> Path:
    full = full_labels(classes)
    for number, name in enumerate(name for names in NAMES.values() for name in names):
        (root / folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 8), (number, 2 * number, 100)).save(root / folder / name)
    for part, names in NAMES.items():
        np.save(root / f"formatted_{part}_images.npy", np.array(names))
        np.save(root / f"formatted_{part}_labels.npy", full[part])
        if observed:
            labels = np.zeros_like(full[part])
            labels[:, 1] = 1
            np.save(root / f"formatted_{part}_labels_obs.npy", labels)
    return root


def change(root: Path, what: str, edit: Callable[[np.ndarray], np.ndarray]) -> Path:
    file = root / f"formatted_{what}.npy"
    np.save(file, edit(np.load(file)))
    return file


def test_what_is_observed_and_what_is_true(tmp_path: Path) -> None:
    table = read(write_set(tmp_path))
    full = full_labels(20)
    assert (table.kind, table.root) == ("npy", tmp_path / VOC_FOLDER)
    assert table.names == (*NAMES["train"], *NAMES["val"])
    assert table.splits == ("train",) * 6 + ("test",) * 2
    assert table.classes[:2] == ("aeroplane", "bicycle")
    assert table.notes == (
        "the observed labels of the training images are in formatted_train_labels_obs.npy",
        "20 classes without a classes.txt: their names are taken to be those of PASCAL VOC 2012",
    )
    data = prepare(table)
    rows = [NAMES["train"].index(name) for name in data.train.names]
    assert data.train.observed.sum(axis=1).tolist() == [1] * 5
    assert data.train.observed[:, 1].tolist() == [1] * 5
    assert data.train.truth is not None
    assert np.array_equal(data.train.truth == 1, full["train"][rows] == 1)
    assert data.val.truth is not None
    assert (data.val.truth == 1).sum() > 1  # held-out images are evaluated by all their labels
    assert data.test is not None
    assert np.array_equal(data.test.observed == 1, full["val"] == 1)  # not by what its labels_obs shows


def test_single_positives_are_drawn_from_the_full_labels(tmp_path: Path) -> None:
    data = prepare(read(write_set(tmp_path)), observe="single")
    drawn = single_positives(full_labels(20)["train"].astype(np.int8))
    assert (drawn.argmax(axis=1) != 1).any()  # others than those of labels_obs
    rows = [NAMES["train"].index(name) for name in data.train.names]
    assert np.array_equal(data.train.observed, drawn[rows])


def test_without_observed_labels_the_full_ones_are(tmp_path: Path) -> None:
    table = read(write_set(tmp_path, observed=False))
    data = prepare(table)
    assert data.train.truth is not None
    assert np.array_equal(data.train.observed == 1, data.train.truth == 1)
    assert set(np.unique(data.train.observed)) == {0, 1}
    assert table.notes[0] == "the observed labels of the training images are in formatted_train_labels.npy"


def test_observed_negatives(tmp_path: Path) -> None:
    full = full_labels(20)["train"]
    column = int(np.flatnonzero(full[0] == 0)[0])
    file = write_set(tmp_path) / "formatted_train_labels_obs.npy"
    observed = np.load(file)
    observed[0, column] = -1
    np.save(file, observed)
    assert read(tmp_path).labels[0, column] == -1


def test_zeros_that_are_known_not_to_be_negative(tmp_path: Path) -> None:
    table = read(write_set(tmp_path))
    hidden = int(full_labels(20)["train"].sum()) - 6
    with pytest.raises(UserError) as caught:
        prepare(table, zeros="negative")
    assert str(caught.value) == (
        f"{table.place}: zeros 'negative' contradicts {hidden} of the complete labels, which are positive; leave it out"
    )
    assert set(np.unique(prepare(read(write_set(tmp_path / "full", observed=False)), zeros="negative").train.observed)) == {-1, 1}


@pytest.mark.parametrize(
    ("classes", "first"),
    [(20, "aeroplane"), (80, "person"), (81, "airport"), (312, "has_bill_shape::curved_(up_or_down)")],
)
def test_the_names_of_a_benchmark_by_their_number(tmp_path: Path, classes: int, first: str) -> None:
    names = read(write_set(tmp_path, classes)).classes
    assert len(names) == classes
    assert names[0] == first


def test_names_in_classes_txt_come_first(tmp_path: Path, refusal: Refusal) -> None:
    write_set(tmp_path, 3)
    (tmp_path / "classes.txt").write_text("sun\nmoon\nstar\n")
    assert read(tmp_path).classes == ("sun", "moon", "star")
    (tmp_path / "classes.txt").write_text("sun\nmoon\n")
    assert refusal(tmp_path) == f"{tmp_path}/classes.txt: 2 names, but the labels have 3 classes; name each, in order"


def test_classes_without_names(tmp_path: Path, refusal: Refusal) -> None:
    assert refusal(write_set(tmp_path, 3)) == (
        f"{tmp_path}: 3 classes without names; write them to {tmp_path}/classes.txt, one per line, in the order of the columns "
        "(names are known for 20 (PASCAL VOC 2012), 80 (COCO 2014), 81 (NUS-WIDE), 312 (CUB-200-2011))"
    )


@pytest.mark.parametrize(
    "folder", [".", "images", "JPEGImages", "Flickr", "CUB_200_2011/CUB_200_2011/images", "CUB_200_2011/images"]
)
def test_the_folder_of_the_images_is_found(tmp_path: Path, folder: str) -> None:
    table = read(write_set(tmp_path, folder=folder))
    assert table.root.resolve() == (tmp_path / folder).resolve()
    assert all(path.is_file() for path in table.paths)


def test_the_folder_of_the_images_is_not_found(tmp_path: Path, refusal: Refusal) -> None:
    assert refusal(write_set(tmp_path, folder="pictures")) == (
        f"{tmp_path}: none of the first images is there (2008_000008.jpg); looked in this folder and in its images, JPEGImages, "
        "VOCdevkit/VOC2012/JPEGImages, VOC2012/JPEGImages, Flickr, images/Flickr, CUB_200_2011/CUB_200_2011/images, "
        "CUB_200_2011/images; put the images, or a link to them, in one of these"
    )


def test_names_with_folders_and_backslashes(tmp_path: Path) -> None:
    write_set(tmp_path, folder="Flickr/actor")
    for part in NAMES:
        change(tmp_path, f"{part}_images", lambda names: np.array([f"actor\\{name}" for name in names]))
    table = read(tmp_path)
    assert table.names[0] == "actor/2008_000008.jpg"
    assert table.root == tmp_path / "Flickr"


def test_images_that_do_not_exist(tmp_path: Path, refusal: Refusal) -> None:
    (write_set(tmp_path) / VOC_FOLDER / NAMES["train"][0]).unlink()
    assert refusal(tmp_path) == (
        f"{tmp_path}/{VOC_FOLDER}: 1 of the 8 images that the files in {tmp_path} name do not exist (2008_000008.jpg); "
        "unpack the images again, completely: it is the set that they were made for"
    )


@pytest.mark.parametrize("part", ["train", "val"])
@pytest.mark.parametrize(("what", "meaning"), [("images", "the names of the images"), ("labels", "the labels")])
def test_a_missing_file(tmp_path: Path, refusal: Refusal, part: str, what: str, meaning: str) -> None:
    file = write_set(tmp_path) / f"formatted_{part}_{what}.npy"
    file.unlink()
    assert refusal(tmp_path) == f"{file}: no such file: {meaning}; {SOURCE}"


def test_python_objects_are_not_opened_and_how_to_save_them_again(tmp_path: Path, refusal: Refusal) -> None:
    file = change(write_set(tmp_path), "train_images", lambda names: names.astype(object))
    message = refusal(tmp_path)
    assert message.startswith(
        f"{file}: an array of Python objects, which is not safe to open; if you trust it, save it again as "
    )
    advice = message.partition("numbers: ")[2].replace(file.name, str(file))
    exec(advice, {"numpy": np})
    assert read(tmp_path).names[:6] == tuple(NAMES["train"])


def headed(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'",
        b"PK\x03\x04" + bytes(50),
        headed(b"{'descr': '<f8', 'fortran_order': False, 'shape': (20, \n"),
        headed(b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 99999999999999), }\n"),
        headed(b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999999999999, 9), }\n"),
        headed(b"(" * 3000),
    ],
)
def test_a_file_that_is_no_array(tmp_path: Path, refusal: Refusal, content: bytes) -> None:
    file = write_set(tmp_path) / "formatted_val_labels.npy"
    file.write_bytes(content)
    assert refusal(tmp_path) == f"{file}: not a whole .npy file; copy it again"


def test_an_array_cut_short(tmp_path: Path, refusal: Refusal) -> None:
    file = write_set(tmp_path) / "formatted_val_labels.npy"
    file.write_bytes(file.read_bytes()[:-9])
    assert refusal(tmp_path) == f"{file}: not a whole .npy file; copy it again"


def test_several_arrays(tmp_path: Path, refusal: Refusal) -> None:
    file = write_set(tmp_path) / "formatted_val_labels.npy"
    with file.open("wb") as archive:
        np.savez(archive, labels=np.zeros(3))
    assert refusal(tmp_path) == f"{file}: an archive of several arrays, not a .npy file; save the one array"


@pytest.mark.parametrize(("part", "split"), [("train", "train"), ("val", "test")])
def test_no_rows(tmp_path: Path, refusal: Refusal, part: str, split: str) -> None:
    write_set(tmp_path, observed=False)
    change(tmp_path, f"{part}_labels", lambda labels: labels[:0])
    file = change(tmp_path, f"{part}_images", lambda names: names[:0])
    assert refusal(tmp_path) == f"{file}: no images to {split} on; {SOURCE}"


def test_names_that_are_none(tmp_path: Path, refusal: Refusal) -> None:
    file = change(write_set(tmp_path), "train_images", lambda names: np.arange(len(names)))
    assert refusal(tmp_path) == f"{file}: must be one name per image, not int64[6]; {SOURCE}"


def test_names_of_numbers_that_are_no_characters(tmp_path: Path, refusal: Refusal) -> None:
    write_set(tmp_path)
    file = tmp_path / "formatted_train_images.npy"
    content = bytearray(file.read_bytes())
    content[-4:] = b"\xff\xff\xff\x7f"
    file.write_bytes(content)
    assert refusal(tmp_path) == f"{file}: its names are no text; copy it again"


def test_labels_of_other_images(tmp_path: Path, refusal: Refusal) -> None:
    file = change(write_set(tmp_path), "train_labels", lambda labels: labels[:5])
    assert refusal(tmp_path) == f"{file}: must be a number per image and class, for 6 images, not float64[5, 20]; {SOURCE}"


def test_labels_that_are_not_complete(tmp_path: Path, refusal: Refusal) -> None:
    file = change(write_set(tmp_path), "train_labels", lambda labels: labels - 1)
    assert refusal(tmp_path) == f"{file}: has values other than 0, 1; {SOURCE}"


def test_parts_of_different_sets(tmp_path: Path, refusal: Refusal) -> None:
    file = change(write_set(tmp_path), "val_labels", lambda labels: labels[:, :19])
    assert refusal(tmp_path) == f"{file}: 19 classes, but 20 in train; take both files from one set"
    file = change(write_set(tmp_path), "train_labels_obs", lambda labels: labels[:, :19])
    assert refusal(tmp_path) == f"{file}: 19 classes, but the labels have 20; take both files from one set"


def test_observed_labels_that_are_not_true(tmp_path: Path, refusal: Refusal) -> None:
    full = full_labels(20)["train"]
    file = change(write_set(tmp_path), "train_labels_obs", lambda labels: np.where(np.arange(6)[:, None] > 3, 1, labels))
    wrong = int((full[4:] == 0).sum())
    assert refusal(tmp_path) == (
        f"{file}: {wrong} observed labels contradict formatted_train_labels.npy (first in row 4); take both files from one set"
    )


def test_an_image_that_is_trained_and_tested_on(tmp_path: Path, refusal: Refusal) -> None:
    change(write_set(tmp_path), "val_images", lambda names: np.array([NAMES["train"][0], names[1]]))
    assert refusal(tmp_path) == f"{tmp_path}: images that occur more than once: 1 (2008_000008.jpg); keep one row of each"


def test_it_comes_before_the_tree_that_it_was_made_of(tmp_path: Path) -> None:
    write_set(tmp_path)
    (tmp_path / "VOCdevkit/VOC2012/ImageSets/Main").mkdir(parents=True)
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations/instances_train2014.json").touch()
    assert read(tmp_path).kind == "npy"


def test_what_check_says(tmp_path: Path, capsys) -> None:
    answer = aevlp(capsys, "check", write_set(tmp_path, 81, "Flickr"))
    assert (
        "the observed labels of the training images are in formatted_train_labels_obs.npy\n"
        "81 classes without a classes.txt: their names are taken to be those of NUS-WIDE\n\nNUS-WIDE        found  expected\n"
        in answer.out
    )
    assert "  train images      6   150,000\n  test images       2    60,260\n  classes          81        81\n" in answer.out
    assert "(150,000 and 60,260 images); the official lists name 161,789 and 107,859\n" in answer.out


def test_a_missing_file_on_the_command_line(tmp_path: Path, capsys) -> None:
    (write_set(tmp_path) / "formatted_val_labels.npy").unlink()
    message = refused(capsys, "check", tmp_path)
    assert message == f"{tmp_path}/formatted_val_labels.npy: no such file: the labels; {SOURCE}"


def test_what_is_observed_may_be_named_by_the_way_it_was_chosen(tmp_path: Path, refusal: Refusal) -> None:
    root = write_set(tmp_path)
    before = read(root).labels
    (root / "formatted_train_labels_obs.npy").rename(root / "formatted_train_uniform_labels_obs.npy")
    table = read(root)
    assert np.array_equal(table.labels, before)
    assert table.notes[0] == "the observed labels of the training images are in formatted_train_uniform_labels_obs.npy"
    np.save(root / "formatted_train_size_labels_obs.npy", before)
    assert "several files of observed labels (formatted_train_size_labels_obs.npy, formatted_train_uniform" in refusal(root)
