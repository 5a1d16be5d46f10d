"""Refusals of a table: each names the file, the line, the fault and the remedy."""

from collections.abc import Callable
from pathlib import Path

import pytest

Refusal = Callable[..., str]


@pytest.fixture
def refused(pictures: Callable[[list[str]], Path], refusal: Refusal) -> Callable[..., str]:
    """The refusal of a table beside the images a.png to d.png, without the path of their folder."""

    def text(table: str | bytes, name: str = "labels.csv", classes: str | None = None) -> str:
        root = pictures(["a.png", "b.png", "c.png", "d.png"])
        if classes is not None:
            (root / "classes.txt").write_text(classes)
        (root / name).write_bytes(table if isinstance(table, bytes) else table.encode())
        return refusal(root / name).replace(str(root), "DATA")

    return text


CASES = {
    "no image column": (
        "picture,labels\na.png,dog\n",
        "DATA/labels.csv: no column 'image' (or file_name or filename); its columns are: picture, labels; "
        "add one with the file names",
    ),
    "empty file": (
        "",
        "DATA/labels.csv: no column 'image' (or file_name or filename); it is empty; add one with the file names",
    ),
    "no labels": (
        "image,split\na.png,train\n",
        "DATA/labels.csv: no labels in it; its columns are: image, split; add a column 'labels', or a column per class",
    ),
    "no label in any row": (
        "image,labels\na.png,\n",
        "DATA/labels.csv: no class in it; label some images, or name the classes in a classes.txt beside them",
    ),
    "no rows": ("image,labels\n", "DATA/labels.csv: no images in it (read as table); add some, or check the path"),
    "missing images": (
        "image,labels\na.png,dog\nw.png,cat\nx.png,cat\ny.png,cat\nz.png,cat\n",
        "DATA/labels.csv, line 3: 4 of 5 images do not exist (w.png, x.png, y.png, ...); "
        "names are relative to DATA: correct them, or remove their rows",
    ),
    "an empty image cell": (
        "image,labels\n ,dog\n",
        "DATA/labels.csv, line 2: no image named in column 'image'; name one, or remove the row",
    ),
    "one image, two opinions": (
        "image,labels\na.png,dog\nb.png,cat\na.png,cat\n",
        "DATA/labels.csv, line 4: 'a.png' is already on line 2 with other labels; make one row of the two",
    ),
    "one image, two splits": (
        "image,labels,split\na.png,dog,train\na.png,dog,test\n",
        "DATA/labels.csv, line 3: 'a.png' is already on line 2 in another split; make one row of the two",
    ),
    "positive and negative": (
        "image,labels,negatives\na.png,dog;cat,cow;cat\n",
        "DATA/labels.csv, line 2: 'cat' is both positive and negative; keep it in one of the two columns",
    ),
    "a bad cell": (
        "image,dog,cat\na.png,1,0\nb.png,2,0\n",
        "DATA/labels.csv, line 3: column 'dog' has '2', but a class column holds 1, 0, -1 or nothing; "
        "correct it, or if 'dog' is not a class, list the classes in a classes.txt",
    ),
    "a bad split": (
        "image,labels,split\na.png,dog,training\n",
        "DATA/labels.csv, line 2: split 'training' is none of train, val, test; correct it",
    ),
    "a single class": (
        "image,labels\na.png,dog\nb.png,dog\n",
        "DATA/labels.csv: only one class ('dog'); a multi-label classifier needs at least two",
    ),
    "commas between labels": (
        "image,labels\na.png,dog,cat\n",
        "DATA/labels.csv, line 2: 3 fields under 2 columns; separate several labels by ';', "
        "or quote a field that has a comma in it",
    ),
    "two columns of one name": (
        "image,dog,dog\na.png,1,0\n",
        "DATA/labels.csv, line 1: two columns have the same name (dog); rename or remove one",
    ),
    "an open quote": (
        'image,labels\na.png,"dog\nb.png,cat\n',
        "DATA/labels.csv, line 3: not a valid table (unexpected end of data); check the quotes",
    ),
    "not UTF-8": (
        "image,labels\na.png,hündin\n".encode("latin-1"),
        "DATA/labels.csv: not UTF-8 text (byte 20); save it as UTF-8",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_csv(refused: Callable[..., str], case: str) -> None:
    text, message = CASES[case]
    assert refused(text) == message


JSONL_CASES = {
    "not JSON": (
        '{"image": "a.png", "labels": ["dog"]}\n{"image": \n',
        "DATA/labels.jsonl, line 2: not valid JSON (Expecting value, column 11); write one object per line",
    ),
    "deeper than any label": (
        "[" * 100_000 + "\n",
        "DATA/labels.jsonl, line 1: not valid JSON (nested too deep); write one object per line",
    ),
    "not an object": (
        '["a.png", "dog"]\n',
        'DATA/labels.jsonl, line 1: not a JSON object; write one like {"image": ..., "labels": [...]}',
    ),
    "a number as label": (
        '{"image": "a.png", "labels": ["dog", 3]}\n',
        "DATA/labels.jsonl, line 1: 'labels' has 3, which is not a class name; write names in quotes",
    ),
    "a number as image": (
        '{"image": 7, "labels": ["dog"]}\n',
        "DATA/labels.jsonl, line 1: 'image' is 7, not text; write it in quotes",
    ),
    "a bad cell": (
        '{"image": "a.png", "dog": 1, "cat": true}\n',
        "DATA/labels.jsonl, line 1: column 'cat' has 'True', but a class column holds 1, 0, -1 or nothing; "
        "correct it, or if 'cat' is not a class, list the classes in a classes.txt",
    ),
}


@pytest.mark.parametrize("case", JSONL_CASES)
def test_jsonl(refused: Callable[..., str], case: str) -> None:
    text, message = JSONL_CASES[case]
    assert refused(text, "labels.jsonl") == message


def test_a_label_that_is_not_in_classes_txt(refused: Callable[..., str]) -> None:
    assert refused("image,labels\na.png,dog\nb.png,Zebr\n", classes="dog\nzebra\n") == (
        "DATA/labels.csv, line 3: class 'Zebr' is not in classes.txt (did you mean 'zebra'?); correct the name, or add it there"
    )


def test_a_class_of_classes_txt_without_a_column(refused: Callable[..., str]) -> None:
    assert refused("image,dgo,cat\na.png,1,0\n", classes="dog\ncat\n") == (
        "DATA/labels.csv: no column for class 'dog' of classes.txt (did you mean 'dgo'?); "
        "rename or add it, or take it out of classes.txt"
    )


def test_a_class_twice_in_classes_txt(refused: Callable[..., str]) -> None:
    assert refused("image,labels\na.png,dog\n", classes="dog\ndog\n") == (
        "DATA/classes.txt, line 2: 'dog' is already on line 1; remove one of them"
    )


def test_a_folder_without_a_table(tmp_path: Path, refusal: Refusal) -> None:
    assert refusal(tmp_path, "table") == (
        f"{tmp_path}: no table; the format 'table' is a .csv, .tsv, .jsonl file, or a folder with labels.csv"
    )
