"""The choice of a reader, and refusals that do not depend on the reader."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aevlp.data import read, readers
from aevlp.data.files import MOST_ASKED
from tests.data.readers import test_coco, test_npy, test_voc

Pictures = Callable[[list[str]], Path]
Refusal = Callable[..., str]


def test_a_format_is_detected(pictures: Pictures) -> None:
    root = pictures(["dog/1.png", "cat/1.png"])
    assert read(root).kind == "folder"
    (root / "labels.csv").write_text("image,labels\ndog/1.png,dog\ncat/1.png,cat\n")
    assert read(root).kind == "table"


def test_a_format_can_be_forced(pictures: Pictures) -> None:
    root = pictures(["dog/1.png", "cat/1.png"])
    (root / "labels.csv").write_text("image,labels\ndog/1.png,tail\ncat/1.png,whiskers\n")
    assert read(root).classes == ("tail", "whiskers")
    assert read(root, "folder").classes == ("cat", "dog")


def test_an_unknown_format_names_the_nearest_and_lists_all(tmp_path: Path, refusal: Refusal) -> None:
    names = ", ".join(reader.name for reader in readers.readers())
    assert refusal(tmp_path, "fodler") == f"--format fodler: no such format (did you mean 'folder'?); formats: {names}"
    assert refusal(tmp_path, "zzz") == f"--format zzz: no such format; formats: {names}"


def test_every_format_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
    for reader in readers.readers():
        assert f"\n| `{reader.name}` |" in text, reader.name


def test_a_missing_path(tmp_path: Path, refusal: Refusal) -> None:
    assert refusal(tmp_path / "nowhere") == f"{tmp_path}/nowhere: no such file or folder; check the path"


def test_an_empty_folder(tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "dog").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    assert refusal(tmp_path) == f"{tmp_path}: no images in this folder; add some, or check the path"


def test_an_empty_folder_read_as_a_format(tmp_path: Path, refusal: Refusal) -> None:
    assert refusal(tmp_path, "folder") == (f"{tmp_path}: no images in it (read as folder); add some, or check the path")


@pytest.mark.parametrize("as_folder", [True, False])
def test_not_an_image_set(pictures: Pictures, refusal: Refusal, as_folder: bool) -> None:
    root = pictures(["1.png"])
    path = root if as_folder else root / "1.png"
    message = refusal(path)
    assert message.startswith(f"{path}: not an image set of a known kind; known are: ")
    for reader in readers.readers():
        assert f"{reader.name} ({reader.looks_like})" in message


def test_a_single_class(pictures: Pictures, refusal: Refusal) -> None:
    root = pictures(["dog/1.png", "dog/2.png"])
    assert refusal(root) == f"{root}: only one class ('dog'); a multi-label classifier needs at least two"


def test_what_may_not_be_read(pictures: Pictures, refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    root = pictures(["dog/1.png", "cat/1.png"])

    def forbidden(path: Path) -> list[Path]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", forbidden)
    assert refusal(root) == f"{root}: cannot be read (Permission denied); check its permissions"


def test_a_new_format_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "more"
    place.mkdir()
    (place / "lonely.py").write_text(
        "import numpy as np\n"
        "from aevlp.data.readers import Reader, register\n"
        "from aevlp.data.dataset import ImageTable\n"
        "def read(path):\n"
        "    return ImageTable(path, ('a',), ('x', 'y'), np.zeros((1, 2), np.int8), ('train',), 'lonely')\n"
        "register(Reader('lonely', lambda path: path.suffix == '.lonely', read, looks_like='a .lonely file'))\n"
    )
    monkeypatch.setattr(readers, "__path__", [*readers.__path__, str(place)])
    file = tmp_path / "set.lonely"
    file.touch()
    try:
        assert read(file).kind == "lonely"
    finally:
        del readers.READERS["lonely"], sys.modules["aevlp.data.readers.lonely"]


@pytest.mark.parametrize(
    ("module", "heavy"), [("aevlp.data", ("torch", "transformers", "PIL")), ("aevlp.data.check", ("torch", "transformers"))]
)
def test_reading_and_checking_import_no_heavy_library(module: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


BENCHMARKS = {
    "coco": lambda root: test_coco.write_tree(root),
    "npy": lambda root: test_npy.write_set(root),
    "voc": lambda root: test_voc.write_tree(root / "VOCdevkit" / "VOC2012"),
}


@pytest.mark.parametrize("name", BENCHMARKS)
@pytest.mark.parametrize("place", ["set", "data/set"])
@pytest.mark.parametrize("beside", [["other/1.png"], []])
def test_a_benchmark_below_is_not_taken_for_classes(
    pictures: Pictures, refusal: Refusal, name: str, place: str, beside: list[str]
) -> None:
    root = pictures(beside)
    BENCHMARKS[name](root / place)
    assert refusal(root) == (
        f"{root}: {root / place} looks like {name}; give that path, or --format folder if its folders are classes"
    )
    assert read(root / place).kind == name


def test_several_benchmarks_below(tmp_path: Path, refusal: Refusal) -> None:
    BENCHMARKS["voc"](tmp_path / "PASCAL")
    BENCHMARKS["coco"](tmp_path / "COCO")
    assert refusal(tmp_path) == (
        f"{tmp_path}: {tmp_path}/COCO looks like coco, {tmp_path}/PASCAL looks like voc; give one of these paths, "
        "or --format folder if its folders are classes"
    )


def test_folders_that_are_classes_whatever_lies_in_them(pictures: Pictures) -> None:
    root = pictures(["dog/train2014/1.png", "cat/JPEGImages/1.png"])
    assert read(root, "folder").classes == ("cat", "dog")


def test_a_table_in_a_class_folder_and_what_is_hidden_do_not_matter(pictures: Pictures) -> None:
    root = pictures(["dog/1.png", "cat/1.png", ".cache/train2014/1.png"])
    (root / "dog" / "metadata.csv").write_text("image,photographer\n1.png,Ann\n")
    assert read(root).classes == ("cat", "dog")


def test_of_many_class_folders_few_are_asked(pictures: Pictures, monkeypatch: pytest.MonkeyPatch) -> None:
    root = pictures([f"{i:03d}/{part}/1.png" for i in range(MOST_ASKED + 5) for part in ("a", "b")])
    asked: list[Path] = []
    coco = next(reader for reader in readers.readers() if reader.name == "coco")

    def detects(path: Path) -> bool:
        asked.append(path)
        return False

    monkeypatch.setitem(readers.READERS, "coco", replace(coco, detects=detects))
    assert len(read(root).classes) == MOST_ASKED + 5
    assert asked[0] == root
    assert {len(path.relative_to(root).parts) for path in asked[1:]} == {1, 2}
    assert len(asked) == 1 + 2 * MOST_ASKED
