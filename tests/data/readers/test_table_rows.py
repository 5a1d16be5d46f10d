from itertools import count, islice

import pytest

from aevlp.core.errors import UserError
from aevlp.data.readers.table import image_names
from aevlp.data.table_rows import TableRows


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "image,labels\na.png,dog\n\nb.png,\n"),
        ("t.tsv", "image\tlabels\r\na.png\tdog\r\n\r\nb.png\t\r\n"),
        ("t.csv", "image,labels\ra.png,dog\r\rb.png,\r"),
        ("t.jsonl", '{"image": "a.png", "labels": "dog"}\n\n{"image": "b.png", "labels": ""}'),
        ("t.jsonl", '{"image": "a.png",\r "labels": "dog"}\r\n\r\n{"image": "b.png", "labels": ""}\r\n'),
    ],
)
def test_rows_come_with_their_lines(tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode())
    table = TableRows(tmp_path / name)
    rows = list(table)
    assert list(table.columns) == ["image", "labels"]
    first = 1 if name.endswith("jsonl") else 2
    assert [(row.line, row.cells) for row in rows] == [
        (first, {"image": "a.png", "labels": "dog"}),
        (first + 2, {"image": "b.png", "labels": ""}),
    ]


def test_a_quoted_field_goes_on_over_lines(tmp_path):
    (tmp_path / "t.csv").write_text('image,labels\n"a\n.png",dog\nb.png,cat\n')
    assert [(row.line, row.cells["image"]) for row in TableRows(tmp_path / "t.csv")] == [(3, "a\n.png"), (4, "b.png")]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_rows_are_read_as_they_are_asked_for(tmp_path, suffix):
    """An error at the end of a large file does not show at its beginning."""
    good = "a.png,dog\n" if suffix == ".csv" else '{"image": "a.png"}\n'
    text = ("image,labels\n" if suffix == ".csv" else "") + good * 20_000
    (tmp_path / f"t{suffix}").write_bytes(text.encode() + b"\xff\n")
    rows = iter(TableRows(tmp_path / f"t{suffix}"))
    assert [row.cells["image"] for row in islice(rows, 10)] == ["a.png"] * 10
    with pytest.raises(UserError, match=rf"not UTF-8 text \(byte {len(text)}\)"):
        list(rows)


def test_the_columns_of_jsonl_are_those_met_so_far(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"image": "a.png"}\n{"image": "b.png", "dog": 1}\n')
    rows = TableRows(tmp_path / "t.jsonl")
    assert [list(rows.columns) for _ in rows] == [["image"], ["image", "dog"]]


# The images that a table names, whatever else is in it


def test_image_names(tmp_path):
    (tmp_path / "t.csv").write_text("id,FileName,anything\n1, ./a.png ,x\n2,deep/b.png,\n")
    assert list(image_names(tmp_path / "t.csv")) == ["a.png", "deep/b.png"]
    (tmp_path / "t.jsonl").write_text('{"file_name": "a.png", "labels": 7}\n')
    assert list(image_names(tmp_path / "t.jsonl")) == ["a.png"]


def test_names_of_images_are_read_as_they_are_asked_for(tmp_path):
    (tmp_path / "t.csv").write_text("image\n" + "".join(f"{number}.png\n" for number in range(20_000)) + '"\n')
    names = image_names(tmp_path / "t.csv")
    assert all(name == f"{number}.png" for number, name in zip(count(), islice(names, 100), strict=False))
    with pytest.raises(UserError, match="line 20002: not a valid table"):
        list(names)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "t.csv: no column 'image' (or file_name or filename); it is empty; add one with the file names"),
        ("labels\ndog\n", "t.csv: no column 'image' (or file_name or filename); its columns are: labels; add one"),
        ("labels\n", "t.csv: no column 'image' (or file_name or filename); its columns are: labels; add one"),
        ("image,labels\n,dog\n", "t.csv, line 2: no image named in column 'image'; name one, or remove the row"),
    ],
)
def test_a_table_that_names_no_images_is_refused(tmp_path, text, says):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UserError) as caught:
        list(image_names(tmp_path / "t.csv"))
    assert says in str(caught.value)
