"""Parquet and Arrow: every encoding of labels, the choice of columns, and what is refused."""

import logging
import sys

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'aevlp[datasets]'")

import pyarrow as pa
import pyarrow.parquet as pq

from aevlp.core.errors import UserError
from aevlp.data import read
from aevlp.data.images import bad_images, open_rgb
from aevlp.data.readers import ChosenColumns
from tests.kinds import STRUCT, as_parquet, as_saved, colour_items, features, image_array, write_parquet


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    return colour_items(tmp_path_factory.mktemp("parquet") / "world", train=6, test=0)


@pytest.fixture
def written(items, tmp_path):
    """Writes the six images with some columns, and returns the folder."""

    def write(metadata=None, images="image", **columns):
        arrays = {
            images: image_array(items),
            **{name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()},
        }
        write_parquet(tmp_path / "set" / "train.parquet", arrays, metadata)
        return tmp_path / "set"

    return write


def labels_of(table):
    return [[table.classes[column] for column in row.nonzero()[0] if row[column] == 1] for row in table.labels]


NAMED = [["cat"], ["dog"], ["cat", "dog"], [], ["elk"], ["cat"]]
LISTS = {"names": ["cat", "dog", "elk"], "_type": "ClassLabel"}


@pytest.mark.parametrize(
    ("columns", "kinds"),
    [
        ({"labels": NAMED}, None),
        ({"tags": NAMED}, None),
        ({"labels": ["cat", "dog", "cat;dog", "", "elk", "cat"]}, None),
        ({"tags": [[0], [1], [0, 1], [], [2], [0]]}, {"tags": {"feature": LISTS, "_type": "Sequence"}}),
        ({"tags": [[0], [1], [0, 1], [], [2], [0]]}, {"tags": {"feature": LISTS, "length": -1, "_type": "List"}}),
        ({"tags": [[0], [1], [0, 1], [], [2], [0]]}, {"tags": [LISTS]}),
        ({"cat": [1, 0, 1, 0, 0, 1], "dog": [0, 1, 1, 0, 0, 0], "elk": [0, 0, 0, 0, 1, 0]}, None),
        ({"cat": [True, False, True, None, False, True], "dog": [0.0, 1, 1, 0, 0, 0], "elk": [0, 0, 0, 0, 1, 0]}, None),
    ],
)
def test_every_encoding_of_labels(written, columns, kinds):
    table = read(written(features(**kinds) if kinds else None, **columns))
    assert table.classes == ("cat", "dog", "elk")
    assert labels_of(table) == NAMED
    assert table.names == tuple(f"train.parquet/{row}" for row in range(6))


@pytest.mark.parametrize("values", [[1, 0, 0], [True, False, False]])
def test_a_flag_per_class_in_a_list(written, values):
    root = written(labels=[values, [*values[1:], values[0]], values, values, values, values])
    assert labels_of(read(root))[:2] == [["0"], ["2"]]
    (root / "classes.txt").write_text("cat\ndog\nelk\n")
    assert labels_of(read(root))[:2] == [["cat"], ["elk"]]
    (root / "classes.txt").write_text("cat\ndog\n")
    with pytest.raises(UserError, match=r"3 flags per image, but classes\.txt lists 2 classes"):
        read(root)


def test_minus_one_is_a_negative_in_flags_and_no_label_in_numbers(written):
    assert (read(written(labels=[[1, -1, -1]] * 6)).labels[0] == [1, -1, -1]).all()
    table = read(written(features(label=LISTS), label=[0, 1, 2, -1, 0, 1]))
    assert labels_of(table)[3] == []


def test_numbers_without_names_are_in_their_order(written):
    assert read(written(label=[10, 9, 2, 10, 9, 2])).classes == ("2", "9", "10")


def test_splits_are_those_of_datasets(items, tmp_path):
    for name in (
        "train-00000-of-00002",
        "train-00001-of-00002",
        "validation-00000-of-00001",
        "dev",
        "other/test",
        "evaluation_3",
    ):
        columns = {"image": image_array(items), "labels": pa.array(NAMED)}
        write_parquet(tmp_path / f"{name}.parquet", columns)
    table = read(tmp_path)
    found = {name.rpartition("/")[0]: split for name, split in zip(table.names, table.splits, strict=True)}
    assert found == {
        "dev.parquet": "val",
        "evaluation_3.parquet": "test",
        "other/test.parquet": "test",
        "train-00000-of-00002.parquet": "train",
        "train-00001-of-00002.parquet": "train",
        "validation-00000-of-00001.parquet": "val",
    }


def test_the_columns_are_said_in_one_line(written, caplog):
    with caplog.at_level(logging.INFO, "aevlp"):
        root = written(tags=NAMED, images="photo")
        read(root)
    assert [record.getMessage() for record in caplog.records] == [
        f"{root}: images from column 'photo', labels from column 'tags' (--image-column, --label-column)"
    ]


def test_columns_that_are_not_obvious_are_asked_for(written, items, refusal):
    root = written(left=NAMED, right=[["cat"]] * 3 + [["dog"]] * 3)
    assert (
        refusal(root)
        == f"{root}: which column holds the labels is not obvious; name it with --label-column (there are: left, right)"
    )
    assert labels_of(read(root, chosen=ChosenColumns(label="left"))) == NAMED
    with pytest.raises(
        UserError, match=r"^--label-column rigth: .* has no such column of labels \(did you mean 'right'\?\); there are: left"
    ):
        read(root, chosen=ChosenColumns(label="rigth"))
    root = written(labels=NAMED, images="before", after=image_array(items[::-1]))
    assert (
        refusal(root)
        == f"{root}: which column holds the images is not obvious; name it with --image-column (there are: before, after)"
    )
    before, after = (read(root, chosen=ChosenColumns(image=name)) for name in ("before", "after"))
    assert before.names[1] == "train.parquet/before/1"
    assert before.digests.tolist() == after.digests.tolist()[::-1]
    root = written(caption=["a", "b", "c", "d", "e", "f"], width=[640] * 6)
    assert refusal(root) == f"{root}: no label column is obvious; name one with --label-column (there are: caption, width)"


def test_a_column_option_is_refused_where_there_are_no_columns(pictures):
    root = pictures(["dog/1.png", "cat/1.png"])
    with pytest.raises(
        UserError, match=r"^--image-column, --label-column: .* is of the format folder; only .*parquet.* have columns$"
    ):
        read(root, chosen=ChosenColumns(label="labels"))


def test_images_may_be_bytes_or_the_names_of_files(items, tmp_path):
    columns = {"image": pa.array([item.content for item in items]), "labels": pa.array(NAMED)}
    plain = read(write_parquet(tmp_path / "bytes.parquet", columns))
    for item in items:
        (tmp_path / item.name).write_bytes(item.content)
    paths = pa.array([{"bytes": None, "path": item.name} for item in items], STRUCT)
    linked = read(write_parquet(tmp_path / "linked.parquet", {**columns, "image": paths}))
    names = pa.array([item.name for item in items])
    named = read(write_parquet(tmp_path / "named.parquet", {"file_name": names, "labels": columns["labels"]}))
    assert plain.digests.tolist() == linked.digests.tolist() == named.digests.tolist()
    assert named.names[0] == items[0].name
    twice = pa.array([items[0].name, *names.to_pylist()[:-1]])
    with pytest.raises(UserError, match=r"images that occur more than once: 1 \("):
        read(write_parquet(tmp_path / "twice.parquet", {"file_name": twice, "labels": columns["labels"]}))
    (tmp_path / items[0].name).unlink()
    with pytest.raises(UserError, match="1 of 6 images do not exist"):
        read(tmp_path / "named.parquet")


def test_an_image_that_is_null_is_a_bad_image(items, tmp_path):
    images = image_array(items).to_pylist()
    images[2] = None
    images[3] = {"bytes": None, "path": None}
    images[4] = {"bytes": b"", "path": "x.png"}
    images[5]["bytes"] = images[5]["bytes"][:50]
    table = read(write_parquet(tmp_path / "some.parquet", {"image": pa.array(images, STRUCT), "labels": pa.array(NAMED)}))
    reasons = bad_images(table.paths)
    assert sorted(reasons) == [2, 3, 4, 5]
    assert reasons[2] == reasons[3] == "no image in this row"
    assert reasons[4] == "not an image, or of an unknown format"


def test_limits_on_pixels_hold_inside_of_archives(items, tmp_path, monkeypatch):
    table = read(write_parquet(tmp_path / "some.parquet", {"image": image_array(items), "labels": pa.array(NAMED)}))
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 100)
    with pytest.raises(UserError, match=r"some\.parquet/0: too many pixels \(more than 200\)"):
        open_rgb(table.paths[0])


def test_a_label_out_of_range(written, refusal):
    root = written(features(label=LISTS), label=[0, 1, 2, 3, 0, 1])
    assert refusal(root) == f"{root / 'train.parquet'}, row 3: the label 3 is out of the range of 3 of the classes; correct it"
    assert "the label -2 is out of the range" in refusal(written(label=[0, 1, 2, -2, 0, 1]))
    root = written(label=[0, 1, 2, 3, 0, 1])
    (root / "classes.txt").write_text("cat\ndog\nelk\n")
    assert "the label 3 is out of the range of 3" in refusal(root)


def test_files_that_list_other_classes_or_one_twice(written, items, refusal):
    root = written(features(label=LISTS), label=[0, 1, 2, 0, 1, 2])
    columns = {"image": image_array(items), "label": pa.array([0, 1, 2, 0, 1, 2])}
    file = write_parquet(root / "zzz.parquet", columns, features(label={**LISTS, "names": ["elk", "dog", "cat"]}))
    assert refusal(root) == f"{file}: lists other classes for 'label' than train.parquet; write the files again, alike"
    file = write_parquet(file, columns, features(label={**LISTS, "names": ["cat", "dog", "cat"]}))
    assert refusal(file) == f"{file}, column 'label': classes that occur more than once: 1 (cat); rename one"


def test_no_image_column(written, items, tmp_path, refusal):
    file = write_parquet(tmp_path / "no.parquet", {"labels": pa.array(NAMED), "image": pa.nulls(6)})
    assert refusal(file) == (
        f"{file}: no column of images (a struct of bytes and path, or bytes); its columns are: labels, image"
    )
    root = written(labels=NAMED)
    write_parquet(root / "zzz.parquet", {"image": image_array(items)})
    assert refusal(root) == f"{root / 'zzz.parquet'}: no column 'labels', which train.parquet has; its columns are: image"
    with pytest.raises(UserError, match=r"^--image-column photo: .* has no such column of images; there are: image"):
        read(tmp_path / "set" / "train.parquet", chosen=ChosenColumns(image="photo"))


@pytest.mark.parametrize(
    "spoil", [lambda content: content[:100], lambda content: b"", lambda content: b"PAR1" + content[4:200] + b"PAR1"]
)
def test_a_damaged_file(written, refusal, spoil):
    file = written(labels=NAMED) / "train.parquet"
    file.write_bytes(spoil(file.read_bytes()))
    assert refusal(file).startswith(f"{file}: damaged, or no parquet file (")
    assert refusal(file).endswith("write or fetch it again")


def test_damage_in_the_middle_of_a_file_is_found(written, refusal):
    file = written(labels=NAMED) / "train.parquet"
    columns = pq.ParquetFile(file).metadata.row_group(0)
    starts = {columns.column(index).path_in_schema: columns.column(index) for index in range(columns.num_columns)}
    content = file.read_bytes()

    def spoil(column):
        spoilt, start = bytearray(content), starts[column].data_page_offset
        spoilt[start : start + 40] = b"\xff" * 40
        file.write_bytes(spoilt)

    spoil("image.bytes")
    reasons = bad_images(read(file).paths)
    assert sorted(reasons) == list(range(6))
    assert reasons[0].startswith("damaged (")
    spoil("labels.list.element")
    assert refusal(file).startswith(f"{file}: damaged (")


def test_without_pyarrow_the_message_says_what_to_install(written, refusal, monkeypatch):
    root = written(labels=NAMED)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "aevlp.data.arrow_files", raising=False)
    monkeypatch.delattr("aevlp.data.arrow_files", raising=False)
    assert refusal(root) == f"{root / 'train.parquet'}: cannot be read without pyarrow; pip install 'aevlp[datasets]'"


def test_what_save_to_disk_writes(items, tmp_path, refusal):
    datasets = pytest.importorskip("datasets", reason="needs datasets, which writes the set")
    labels = datasets.Sequence(datasets.ClassLabel(names=["cat", "dog", "elk"]))
    kinds = datasets.Features({"image": datasets.Image(), "labels": labels})
    rows = {"image": [{"bytes": item.content, "path": None} for item in items], "labels": NAMED}
    rows["labels"] = [[["cat", "dog", "elk"].index(name) for name in names] for names in NAMED]
    made = datasets.Dataset.from_dict(rows, features=kinds)
    made.save_to_disk(str(tmp_path / "one"), num_shards=2)
    table = read(tmp_path / "one")
    assert (table.kind, table.classes, labels_of(table)) == ("save-to-disk", ("cat", "dog", "elk"), NAMED)
    assert table.names[3:5] == ("data-00001-of-00002.arrow/0", "data-00001-of-00002.arrow/1")
    assert bad_images(table.paths) == {}
    same = read(as_parquet(items, tmp_path / "same"))
    assert table.digests.tolist() == same.digests.tolist()

    made.select([4, 2]).save_to_disk(str(tmp_path / "some"))
    assert read(tmp_path / "some").digests.tolist() == [table.digests[4], table.digests[2]]

    file = tmp_path / "one" / "data-00001-of-00002.arrow"
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert refusal(tmp_path / "one").startswith(f"{file}: damaged, or no arrow file (")
    file.unlink()
    assert refusal(tmp_path / "one") == (
        f"{tmp_path / 'one' / 'state.json'}: names a file that is not there ({file.name}); save or fetch the set again"
    )
    (tmp_path / "one" / "state.json").write_text("{}")
    assert refusal(tmp_path / "one") == f"{tmp_path / 'one' / 'state.json'}: no list '_data_files' in it; save the set again"


def test_splits_of_save_to_disk_have_the_names_of_datasets(tmp_path):
    pytest.importorskip("datasets", reason="needs datasets, which writes the set")
    items = colour_items(tmp_path / "world", train=4, test=2)
    table = read(as_saved(items, tmp_path / "saved"))
    assert table.splits == ("train",) * 4 + ("test",) * 2
