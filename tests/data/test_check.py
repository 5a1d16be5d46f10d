import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from aevlp.core.errors import UserError
from aevlp.data.check import Report, SplitReport, render, report_on
from aevlp.data.load import DataOptions

Pictures = Callable[[list[str]], Path]


def animals(pictures: Pictures, extra: str = "") -> Path:
    """Ten training images and two test images of cat, dog and zebra (of which there is only one, in test)."""
    root = pictures([f"{i}.png" for i in range(12)])
    train = "".join(f"{i}.png,{'dog;cat' if i < 3 else 'dog' if i < 9 else ''},train\n" for i in range(10))
    (root / "labels.csv").write_text(f"image,labels,split\n{train}10.png,zebra,test\n11.png,cat;dog,test\n{extra}")
    return root


def test_what_was_understood(pictures: Pictures) -> None:
    root = animals(pictures)
    report = report_on(root)
    assert (report.path, report.kind, report.images, report.classes) == (root, "table", 12, ("cat", "dog", "zebra"))
    assert report.splits == (
        SplitReport("train", 10, (1.2, 0, 2), (0.0, 0, 0), 1),
        SplitReport("test", 2, (1.5, 1, 2), (1.5, 1, 2), 0),
    )
    assert report.held_out == 2
    assert report.examples == {"cat": 3, "dog": 9, "zebra": 0}
    assert report.without_examples == ("zebra",)
    assert (report.unreadable, report.duplicates, report.leaks) == ({}, (), ())
    assert not report.problems
    (problem,) = report_on(root, DataOptions(classes_without_examples="stop")).problems
    assert "1 of 3 classes have no example among the 8 training images (zebra)" in problem


def test_options_are_taken_into_account(pictures: Pictures) -> None:
    root = animals(pictures)
    assert report_on(root, DataOptions(observe="single")).splits[0].positives == (0.9, 0, 1)
    assert report_on(root, DataOptions(zeros="negative")).splits[0].negatives == (1.8, 1, 3)
    with pytest.raises(UserError, match=r"--format tabel: no such format \(did you mean 'table'\?\)"):
        report_on(root, DataOptions(format="tabel"))


def test_unreadable_files_are_a_problem(pictures: Pictures) -> None:
    root = animals(pictures)
    (root / "3.png").write_bytes(b"")
    (root / "11.png").write_text("hello")
    report = report_on(root)
    assert report.unreadable == {"3.png": "an empty file", "11.png": "not an image, or of an unknown format"}
    assert report.problems[0] == (
        "2 of 12 images cannot be read; replace or remove them, or leave them out with --bad-images skip"
    )
    assert report.splits[0].images == 10


def test_two_empty_files_are_not_called_duplicates(pictures: Pictures) -> None:
    root = animals(pictures)
    (root / "3.png").write_bytes(b"")
    (root / "4.png").write_bytes(b"")
    assert report_on(root).duplicates == ()


def test_duplicates_and_leaks(pictures: Pictures) -> None:
    root = animals(pictures)
    shutil.copy(root / "0.png", root / "5.png")
    shutil.copy(root / "0.png", root / "6.png")
    shutil.copy(root / "1.png", root / "10.png")
    report = report_on(root)
    assert report.duplicates == (("0.png", "5.png", "6.png"), ("1.png", "10.png"))
    assert report.leaks == (("1.png", "10.png"),)
    text = render(report)
    assert "groups of equal files (2)\n  1.png = 10.png (in several splits)\n  0.png = 5.png = 6.png\n" in text
    assert "in several splits (1), a leak" in text
    text = render(replace(report, problems=[]))
    assert text.endswith("\n\nNothing else is wrong: training can begin.")


def test_files_that_differ_in_the_middle_only_are_not_duplicates(tmp_path: Path) -> None:
    for name, colour in (("dog", "red"), ("cat", "blue")):
        (tmp_path / name).mkdir()
        image = Image.new("RGB", (100, 100), "white")
        image.paste(colour, (40, 40, 60, 60))
        for i in range(3):
            image.putpixel((50, 50), (i, 0, 0))
            image.save(tmp_path / name / f"{i}.bmp")
    assert report_on(tmp_path).duplicates == ()


def test_what_stops_training_is_a_problem(pictures: Pictures) -> None:
    report = report_on(pictures(["dog/1.png", "cat/1.png"]))
    assert len(report.problems) == 1
    assert "too few training images (2) to hold some out" in report.problems[0]
    assert report.held_out == 0


def test_an_image_set_for_testing_alone(pictures: Pictures) -> None:
    report = report_on(pictures(["test/dog/1.png", "test/cat/1.png"]))
    assert [split.name for split in report.splits] == ["test"]
    assert report.examples == {"cat": 0, "dog": 0}
    assert "no training images" in report.problems[0]


def test_the_text(pictures: Pictures) -> None:
    root = animals(pictures)
    (root / "3.png").write_bytes(b"")
    assert render(report_on(root)).startswith(
        f"{root}: table, 12 images, 3 classes\n"
        "\n"
        "split  images  positives per image  negatives per image  without labels\n"
        "train      10       1.200 (0 to 2)       0.000 (0 to 0)               1\n"
        "test        2       1.500 (1 to 2)       1.500 (1 to 2)               0\n"
        "held out of train for validation: 2 images\n"
        "\n"
        "training examples per class, most frequent first\n"
        "  dog    9\n"
        "  cat    3\n"
        "  zebra  0\n"
        "classes without an example to train on (1): zebra\n"
        "  a teacher may speak for them; methods without one need --classes-without-examples drop\n"
        "\n"
        "files that cannot be read (1)\n"
        "  3.png: an empty file\n"
        "\n"
        "Problem: 1 of 12 images cannot be read; replace or remove them, or leave them out with --bad-images skip"
    )


def report_of(**changes: object) -> Report:
    values: dict[str, object] = {
        "path": Path("DATA"),
        "kind": "table",
        "images": 0,
        "classes": (),
        "splits": (),
        "held_out": 0,
        "examples": {},
        "without_examples": (),
        "unreadable": {},
        "duplicates": (),
        "leaks": (),
        "problems": [],
    }
    return Report(**(values | changes))  # type: ignore[arg-type]


def test_long_lists_are_cut() -> None:
    text = render(
        report_of(
            unreadable={f"{i}.png": "an empty file" for i in range(25)},
            duplicates=tuple((f"a{i}.png", f"b{i}.png") for i in range(8)),
            examples={f"class{i}": i for i in range(30)},
        )
    )
    assert "  19.png: an empty file\n  ... and 5 more\n" in text
    assert "20.png:" not in text
    assert "  a4.png = b4.png\n  ... and 3 more\n" in text
    assert "a5.png" not in text
    classes = [line.split()[0] for line in text.splitlines() if line.startswith(("  class", "  ..."))][:21]
    assert classes == [f"class{i}" for i in range(29, 19, -1)] + ["..."] + [f"class{i}" for i in range(9, -1, -1)]


def test_nothing_wrong() -> None:
    assert render(report_of()).endswith("No problems found.")


def test_names_that_are_not_text_can_be_printed() -> None:
    text = render(report_of(unreadable={os.fsdecode(b"\xff.png"): "an empty file"}))
    assert "\\udcff.png: an empty file" in text.encode().decode()
