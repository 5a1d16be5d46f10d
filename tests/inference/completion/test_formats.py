"""Which format a file is written in, what is refused before any work, and that a file is whole or not there."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from aevlp.core.errors import UserError
from aevlp.inference.completion.formats import LABEL_FORMATS, LabelFile, find_format
from tests.conftest import REPOSITORY
from tests.inference.completion.examples import CLASSES, RECORDS, record


def refusal(function, *arguments, **options) -> str:
    with pytest.raises(UserError) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize(
    ("out", "asked", "name"),
    [
        ("x.csv", None, "csv"),
        ("x.JSONL", None, "jsonl"),
        ("x.csv", "csv", "csv"),
        ("x.json", "coco", "coco"),
        ("x.json", "label-studio", "label-studio"),
        ("x.json", "fiftyone", "fiftyone"),
    ],
)
def test_format_is_asked_for_or_told_by_the_suffix(out, asked, name):
    assert find_format(Path(out), asked).name == name


@pytest.mark.parametrize(
    ("out", "asked", "message"),
    [
        (
            "x.json",
            None,
            "--out x.json: several formats are .json files; choose one with --out-format (coco, fiftyone, label-studio)",
        ),
        ("x.txt", None, "--out x.txt: its name does not tell a format; end it in one of .json (coco), .csv (csv), "),
        ("x", None, "--out x: its name does not tell a format"),
        (
            "x.json",
            "Label_Studio",
            "--out-format Label_Studio: no such format (did you mean 'label-studio'?); known are coco, csv, fiftyone, jsonl, ",
        ),
        ("x.csv", "coco", "--out x.csv: a file in the format coco ends in .json; choose such a name"),
    ],
)
def test_unclear_formats_are_refused(out, asked, message):
    assert refusal(find_format, Path(out), asked).startswith(message)


@pytest.mark.parametrize("name", LABEL_FORMATS)
def test_existing_file_is_refused(name, tmp_path):
    out = tmp_path / f"x{LABEL_FORMATS[name].suffix}"
    out.touch()
    assert refusal(LABEL_FORMATS[name].check, LabelFile(out, tmp_path, CLASSES)) == (
        f"--out {out}: exists; remove it or choose another name"
    )


def test_place_that_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "deeper" / "x.csv"
    assert refusal(LABEL_FORMATS["csv"].check, LabelFile(out, tmp_path, CLASSES)) == (
        f"--out {out}: nothing can be written in {tmp_path / 'file'}; choose another place"
    )


@pytest.mark.parametrize("separator", [";", "|"])
def test_class_names_that_a_csv_cannot_hold_are_refused(separator, tmp_path):
    classes = ("cat", f"hot{separator}dog")
    message = refusal(LABEL_FORMATS["csv"].check, LabelFile(tmp_path / "x.csv", tmp_path, classes))
    assert message == (
        f"--out {tmp_path / 'x.csv'}: the class name 'hot{separator}dog' has a '{separator}' in it, which separates names "
        "in a CSV; write a .jsonl file instead"
    )
    LABEL_FORMATS["jsonl"].check(LabelFile(tmp_path / "x.jsonl", tmp_path, classes))


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_class_names_that_a_table_would_trim_are_refused(name, tmp_path):
    out = tmp_path / f"x.{name}"
    message = refusal(LABEL_FORMATS[name].check, LabelFile(out, tmp_path, ("cat", "dog ")))
    assert message.startswith(f"--out {out}: the class name 'dog ' begins or ends with a space")
    LABEL_FORMATS["coco"].check(LabelFile(tmp_path / "x.json", tmp_path, ("cat", "dog ")))


def test_prefix_of_addresses_is_refused_where_there_are_none(tmp_path):
    message = refusal(LABEL_FORMATS["coco"].check, LabelFile(tmp_path / "x.json", tmp_path, CLASSES, image_prefix="s3://x/"))
    assert message == "--image-prefix does not belong to the format coco, only to: label-studio; leave it out"


@pytest.mark.parametrize("name", ["csv", "jsonl"])
class TestClassList:
    """Of a table, names and order of the classes are in a classes.txt beside it, if the labels alone do not give them."""

    def test_is_written_where_a_class_has_no_label(self, name, written):
        out = written(name)
        assert (out.parent / "classes.txt").read_text() == "".join(f"{c}\n" for c in CLASSES)

    def test_is_written_where_the_order_is_another(self, name, written):
        out = written(name, records=[record("nothing.png", observed=["b", "a"])], classes=["b", "a"])
        assert (out.parent / "classes.txt").read_text() == "b\na\n"

    def test_is_not_written_where_the_labels_tell(self, name, written):
        out = written(name, records=[record("nothing.png", observed=["b"], rejected=["a"])], classes=["a", "b"])
        assert files_in(out.parent) == {out.name}

    def test_is_left_as_it_is_where_it_says_the_same(self, name, written, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "classes.txt").write_text("\n" + "\r\n".join(CLASSES))
        written(name)
        assert (tmp_path / "out" / "classes.txt").read_bytes() == ("\n" + "\r\n".join(CLASSES)).encode()

    def test_of_other_classes_is_refused_and_kept(self, name, tmp_path):
        (tmp_path / "classes.txt").write_text("apple\nzebra\n")
        out = tmp_path / f"x.{name}"
        assert refusal(LABEL_FORMATS[name].check, LabelFile(out, tmp_path, CLASSES)) == (
            f"--out {out}: {tmp_path / 'classes.txt'} is read together with this file, and lists other classes than the "
            "image set; choose another folder"
        )
        assert (tmp_path / "classes.txt").read_text() == "apple\nzebra\n"

    def test_that_appears_meanwhile_is_kept_too(self, name, tmp_path, photos):
        out = tmp_path / "out" / f"x.{name}"

        def records():
            yield RECORDS[0]
            (tmp_path / "out" / "classes.txt").write_text("apple\nzebra\n")

        message = refusal(LABEL_FORMATS[name].write, LabelFile(out, photos, CLASSES), records())
        assert "lists other classes than the image set" in message
        assert files_in(out.parent) == {"classes.txt"}
        assert (out.parent / "classes.txt").read_text() == "apple\nzebra\n"


@pytest.mark.parametrize("name", LABEL_FORMATS)
def test_nothing_is_left_of_a_file_that_fails_midway(name, photos, tmp_path):
    def records():
        yield from RECORDS
        raise RuntimeError("no more")

    out = tmp_path / "out" / f"x{LABEL_FORMATS[name].suffix}"
    with pytest.raises(RuntimeError, match="no more"):
        LABEL_FORMATS[name].write(LabelFile(out, photos, CLASSES), records())
    assert files_in(out.parent) == set()


@pytest.mark.parametrize("name", ["coco", "fiftyone", "label-studio"])
def test_no_images_at_all_are_a_valid_file_too(name, written):
    json.loads(written(name, records=[]).read_text())


@pytest.mark.parametrize("name", LABEL_FORMATS)
def test_every_format_is_in_the_docs_with_its_summary(name):
    page = (REPOSITORY / "docs" / "label-formats.md").read_text()
    suffix = LABEL_FORMATS[name].suffix
    assert f"| `{name}` | {f'`{suffix}`' if suffix else 'a folder'} | {LABEL_FORMATS[name].summary} |" in page


def test_nothing_heavy_is_loaded_for_a_list_of_formats():
    heavy = "{'torch', 'transformers', 'accelerate', 'scipy', 'pyarrow', 'fsspec'} & set(sys.modules)"
    code = (
        f"import sys; from aevlp.inference.completion.formats import LABEL_FORMATS; print(len(LABEL_FORMATS), {heavy} or 'light')"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["6", "light"]
