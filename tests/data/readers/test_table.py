"""Contents that a table may have."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from aevlp.data import ImageTable, read

Write = Callable[..., Path]


@pytest.fixture
def write(pictures: Callable[[list[str]], Path]) -> Write:
    """Writes a table beside the images a.png to d.png and returns its path."""

    def table(text: str | bytes, name: str = "labels.csv", classes: str | None = None) -> Path:
        root = pictures(["a.png", "b.png", "c.png", "d.png"])
        if classes is not None:
            (root / "classes.txt").write_text(classes)
        (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return root / name

    return table


def labels(table: ImageTable) -> dict[str, dict[str, int]]:
    """Image -> class -> value, where known."""
    return {
        name: {label: int(value) for label, value in zip(table.classes, row, strict=True) if value}
        for name, row in zip(table.names, table.labels, strict=True)
    }


def test_labels_by_name(write: Write) -> None:
    table = read(write("image,labels,negatives,split\nb.png,dog;cat,horse,train\na.png, cow | dog ,,test\nc.png,,,val\n"))
    assert table.names == ("b.png", "a.png", "c.png")
    assert table.classes == ("cat", "cow", "dog", "horse")
    assert labels(table) == {"b.png": {"dog": 1, "cat": 1, "horse": -1}, "a.png": {"cow": 1, "dog": 1}, "c.png": {}}
    assert table.splits == ("train", "test", "val")
    assert table.labels.dtype == "int8"
    assert table.kind == "table"


def test_a_column_per_class(write: Write) -> None:
    table = read(write("image,dog,cat,cow,split\na.png,1,0,-1,train\nb.png,, 1.0 ,0.0,valid\nc.png,-1.0\n"))
    assert table.classes == ("dog", "cat", "cow")
    assert labels(table) == {"a.png": {"dog": 1, "cow": -1}, "b.png": {"cat": 1}, "c.png": {"dog": -1}}
    assert table.splits == ("train", "val", "train")


@pytest.mark.parametrize("column", ["image", "file_name", "filename", "Image"])
def test_names_of_the_image_column(write: Write, column: str) -> None:
    assert read(write(f"{column},labels\na.png,dog;cat\n")).names == ("a.png",)


@pytest.mark.parametrize("name", ["labels.csv", "metadata.csv", "labels.tsv", "metadata.tsv", "labels.jsonl", "metadata.jsonl"])
def test_a_folder_with_a_table(write: Write, name: str) -> None:
    text = {
        ".csv": "image,labels\na.png,dog;cat\n",
        ".tsv": "image\tlabels\na.png\tdog;cat\n",
        ".jsonl": '{"image": "a.png", "labels": ["dog", "cat"]}\n',
    }
    path = write(text[Path(name).suffix], name)
    for given in (path, path.parent):
        assert labels(read(given)) == {"a.png": {"dog": 1, "cat": 1}}


def test_any_file_name_will_do(write: Write) -> None:
    assert labels(read(write("image,labels\na.png,dog;cat\n", "my dogs.CSV"))) == {"a.png": {"dog": 1, "cat": 1}}


def test_jsonl(write: Write) -> None:
    rows: list[dict[str, object]] = [
        {"image": "a.png", "labels": ["dog", " a;b "], "negatives": ["cat\u2028"], "width": 640},
        {"image": "b.png", "labels": "cat | dog", "split": "validation"},
        {"image": "c.png", "labels": None},
        {"image": "d.png"},
    ]
    table = read(write("\r\n\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows), "labels.jsonl"))
    assert table.classes == ("a;b", "cat", "dog")
    assert labels(table) == {
        "a.png": {"dog": 1, "a;b": 1, "cat": -1},
        "b.png": {"dog": 1, "cat": 1},
        "c.png": {},
        "d.png": {},
    }
    assert table.splits == ("train", "val", "train", "train")


def test_jsonl_with_a_field_per_class(write: Write) -> None:
    text = '{"image": "a.png", "dog": 1, "cat": null}\n{"image": "b.png", "cat": -1, "cow": "0"}\n'
    table = read(write(text, "labels.jsonl"))
    assert table.classes == ("dog", "cat", "cow")
    assert labels(table) == {"a.png": {"dog": 1}, "b.png": {"cat": -1}}


def test_spreadsheet_habits(write: Write) -> None:
    """A byte order mark, CRLF, quotes, spaces, blank lines and an index column without a name."""
    text = '\ufeff,"image", labels \r\n0,"a.png","dog ;\tbig, red  bus"\r\n\r\n1, "b.png", cät \r\n,,\r\n'
    assert labels(read(write(text))) == {"a.png": {"dog": 1, "big, red  bus": 1}, "b.png": {"cät": 1}}


def test_classes_txt_fixes_names_and_order(write: Write) -> None:
    table = read(write("image,labels\na.png,dog\n", classes="zebra\ndog\ncat\n"))
    assert table.classes == ("zebra", "dog", "cat")
    assert labels(table) == {"a.png": {"dog": 1}}


def test_classes_txt_tells_classes_from_other_columns(write: Write) -> None:
    table = read(write("image,width,dog,cat\na.png,640,1,\n", classes="cat\ndog\n"))
    assert table.classes == ("cat", "dog")
    assert table.labels.tolist() == [[0, 1]]


def test_the_same_row_twice_counts_once(write: Write) -> None:
    table = read(write("image,labels\na.png,dog;cat\nb.png,dog\n./a.png,cat;dog\n"))
    assert table.names == ("a.png", "b.png")


def test_images_in_other_places(write: Write, pictures: Callable[[list[str]], Path]) -> None:
    path = write("image,labels\ndeep/x.png,dog\n../a.png,cat\n")
    root = pictures(["tables/deep/x.png"])
    moved = path.rename(root / "tables" / "labels.csv")
    table = read(moved)
    assert list(table.paths) == [root / "tables/deep/x.png", root / "tables/../a.png"]
    assert all(file.is_file() for file in table.paths)
