from pathlib import Path

import pytest

from aevlp.core.errors import UserError
from aevlp.data.files import missing_files, refuse_empty, refuse_missing_images, require_file, require_folder, unlisted_images


def test_what_is_there_is_returned(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.touch()
    assert require_file(file, "a list", "ask for it") == file
    assert require_folder(tmp_path, "a folder", "ask for it") == tmp_path


def test_a_folder_is_no_file_and_a_file_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.touch()
    with pytest.raises(UserError, match=r"^.*list.txt: no such folder: the images; ask for it$"):
        require_folder(file, "the images", "ask for it")
    with pytest.raises(UserError, match=r": no such file: the list; ask for it$"):
        require_file(tmp_path, "the list", "ask for it")


def test_missing_files_at_any_depth(tmp_path: Path) -> None:
    for name in ("1.jpg", "a/1.jpg", "a/b/1.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "file").touch()
    names = ["a/b/1.jpg", "1.jpg", "2.jpg", "a/1.jpg", "c/1.jpg", "a/2.jpg", "file/1.jpg"]
    assert missing_files(tmp_path, names) == ["2.jpg", "c/1.jpg", "a/2.jpg", "file/1.jpg"]


@pytest.mark.parametrize("there", ["1.JPG", "1.jpeg", "1.png"])
def test_a_missing_image_that_is_there_under_another_spelling(tmp_path: Path, there: str) -> None:
    (tmp_path / "a").mkdir()
    for name in (there, "0.jpg", "1.txt", "11.jpg"):
        (tmp_path / "a" / name).touch()
    with pytest.raises(UserError) as caught:
        refuse_missing_images(tmp_path, ("a/0.jpg", "b/7.jpg", "a/1.jpg"), "the list names", "ask for it")
    assert str(caught.value) == (
        f"{tmp_path}: 2 of the 3 images that the list names do not exist (b/7.jpg, a/1.jpg); there is {there}: "
        "rename such files, or unpack the images again, completely: ask for it"
    )


def test_a_part_without_images(tmp_path: Path) -> None:
    refuse_empty(["1.jpg"], tmp_path / "val.txt", "test", "ask for it")
    with pytest.raises(UserError, match=r"/val.txt: no images to test on; ask for it$"):
        refuse_empty([], tmp_path / "val.txt", "test", "ask for it")


def test_images_that_no_list_names(tmp_path: Path) -> None:
    for name in ("1.jpg", "2.jpg", "3.JPG", "._1.jpg", "readme.txt"):
        (tmp_path / name).touch()
    assert unlisted_images(tmp_path, ["1.jpg", "9.jpg"]) == 2
