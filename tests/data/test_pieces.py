from pathlib import Path

import pytest

from aevlp.data.pieces import file_of, folder_of, missing_files
from aevlp.errors import UserError


def test_what_is_there_is_returned(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.touch()
    assert file_of(file, "a list", "ask for it") == file
    assert folder_of(tmp_path, "a folder", "ask for it") == tmp_path


def test_a_folder_is_no_file_and_a_file_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.touch()
    with pytest.raises(UserError, match=r"^.*list.txt: no such folder: the images; ask for it$"):
        folder_of(file, "the images", "ask for it")
    with pytest.raises(UserError, match=r": no such file: the list; ask for it$"):
        file_of(tmp_path, "the list", "ask for it")


def test_missing_files_at_any_depth(tmp_path: Path) -> None:
    for name in ("1.jpg", "a/1.jpg", "a/b/1.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "file").touch()
    names = ["a/b/1.jpg", "1.jpg", "2.jpg", "a/1.jpg", "c/1.jpg", "a/2.jpg", "file/1.jpg"]
    assert missing_files(tmp_path, names) == ["2.jpg", "c/1.jpg", "a/2.jpg", "file/1.jpg"]
