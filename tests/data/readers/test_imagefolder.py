"""The imagefolder of Hugging Face: tables called metadata, in one folder or one per split."""

import pytest

from aevlp.core.errors import UserError
from aevlp.data import read
from aevlp.data.readers import ChosenColumns


def test_a_table_per_split(pictures):
    root = pictures(["train/1.png", "train/a/2.png", "validation/1.png", "test/1.png"])
    (root / "train" / "metadata.csv").write_text("file_name,label\n1.png,cat\na/2.png,dog\n")
    (root / "validation" / "metadata.jsonl").write_text('{"file_name": "1.png", "labels": ["cat", "dog"]}\n')
    (root / "test" / "metadata.csv").write_text("file_name,label\n1.png,dog\n")
    table = read(root)
    assert table.kind == "imagefolder"
    assert dict(zip(table.names, table.splits, strict=True)) == {
        "test/1.png": "test",
        "train/1.png": "train",
        "train/a/2.png": "train",
        "validation/1.png": "val",
    }
    assert table.classes == ("cat", "dog")
    assert all(path.is_file() for path in table.paths)


def test_columns_of_other_names(pictures):
    root = pictures(["1.png", "2.png"])
    (root / "metadata.csv").write_text("photo,what,labels\n1.png,cat,x\n2.png,dog,y\n")
    table = read(root, chosen=ChosenColumns("photo", "what"))
    assert (table.kind, table.classes, table.names) == ("table", ("cat", "dog"), ("1.png", "2.png"))
    with pytest.raises(
        UserError, match=r"^--label-column wat: .* has no such column \(did you mean 'what'\?\); its columns are: photo"
    ):
        read(root, chosen=ChosenColumns("photo", "wat"))


def test_a_missing_image(pictures, refusal):
    root = pictures(["train/1.png", "test/1.png"])
    (root / "train" / "metadata.csv").write_text("file_name,label\n1.png,cat\n2.png,dog\n")
    (root / "test" / "metadata.csv").write_text("file_name,label\n1.png,dog\n")
    assert refusal(root).startswith(f"{root / 'train' / 'metadata.csv'}, line 3: 1 of 2 images do not exist (2.png)")
