from collections.abc import Callable
from pathlib import Path

from aevlp.data import read

Pictures = Callable[[list[str]], Path]
Refusal = Callable[..., str]


def test_one_observed_positive_per_image_and_classes_in_alphabetical_order(pictures: Pictures) -> None:
    root = pictures(["dog/1.png", "dog/deep/er/2.JPG", "cat/1.png"])
    table = read(root)
    assert table.names == ("cat/1.png", "dog/1.png", "dog/deep/er/2.JPG")
    assert table.classes == ("cat", "dog")
    assert table.labels.tolist() == [[1, 0], [0, 1], [0, 1]]
    assert table.labels.dtype == "int8"
    assert table.splits == ("train",) * 3
    assert table.paths[2] == root / "dog/deep/er/2.JPG"
    assert all(path.is_file() for path in table.paths)


def test_what_is_no_image_of_the_user_is_passed_over(pictures: Pictures) -> None:
    root = pictures(["dog/1.png", "cat/1.png", "dog/._1.png", ".trash/1.png", "__MACOSX/dog/1.png", "dog/.old/2.png"])
    (root / "dog/readme.txt").write_text("good dogs")
    (root / "empty").mkdir()
    table = read(root)
    assert table.names == ("cat/1.png", "dog/1.png")
    assert table.classes == ("cat", "dog")


def test_splits_as_top_folders(pictures: Pictures) -> None:
    table = read(pictures(["train/dog/1.png", "train/cat/1.png", "validation/dog/2.png", "test/cat/3.png"]))
    assert dict(zip(table.names, table.splits, strict=True)) == {
        "train/dog/1.png": "train",
        "train/cat/1.png": "train",
        "validation/dog/2.png": "val",
        "test/cat/3.png": "test",
    }
    assert table.classes == ("cat", "dog")


def test_a_train_among_other_vehicles_is_a_class(pictures: Pictures) -> None:
    table = read(pictures(["train/1.png", "bus/1.png"]))
    assert table.classes == ("bus", "train")
    assert table.splits == ("train", "train")


def test_classes_txt_fixes_names_and_order(pictures: Pictures) -> None:
    root = pictures(["dog/1.png", "cat/1.png"])
    (root / "classes.txt").write_bytes("\ufeffzebra\r\n  dog \r\n\r\ncat\r\n".encode())
    table = read(root)
    assert table.classes == ("zebra", "dog", "cat")
    assert table.labels.tolist() == [[0, 0, 1], [0, 1, 0]]


def test_a_folder_that_is_not_in_classes_txt(pictures: Pictures, refusal: Refusal) -> None:
    root = pictures(["dgo/1.png", "cat/1.png"])
    (root / "classes.txt").write_text("dog\ncat\n")
    assert refusal(root) == (
        f"{root}/dgo/1.png: class 'dgo' is not in classes.txt (did you mean 'dog'?); correct the name, or add it there"
    )


def test_a_class_twice_in_classes_txt(pictures: Pictures, refusal: Refusal) -> None:
    root = pictures(["dog/1.png", "cat/1.png"])
    (root / "classes.txt").write_text("dog\ncat\n dog\n")
    assert refusal(root) == f"{root}/classes.txt, line 3: 'dog' is already on line 1; remove one of them"


def test_a_classes_txt_without_names(pictures: Pictures, refusal: Refusal) -> None:
    root = pictures(["dog/1.png", "cat/1.png"])
    (root / "classes.txt").write_text("\n \n")
    assert refusal(root) == f"{root}/classes.txt: no class names in it; write one per line, or remove the file"


def test_images_beside_the_class_folders(pictures: Pictures, refusal: Refusal) -> None:
    root = pictures(["dog/1.png", "cat/1.png", "a.png", "b.png", "c.png", "d.png"])
    assert refusal(root) == (
        f"{root}: images beside the class folders have no class (4: a.png, b.png, c.png, ...); move them into one, or away"
    )


def test_a_file_read_as_a_folder(pictures: Pictures, refusal: Refusal) -> None:
    root = pictures(["1.png"])
    assert refusal(root / "1.png", "folder") == (
        f"{root}/1.png: not a folder; the format 'folder' is a folder with a sub-folder per class"
    )
