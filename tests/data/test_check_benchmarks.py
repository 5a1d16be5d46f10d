"""Check compares a benchmark with its published counts; PASCAL VOC itself is compared where it is available."""

import os
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aevlp.data import ImageTable, read
from aevlp.data.benchmarks import VOC
from aevlp.data.check import compare_with_benchmark, render, report_on
from aevlp.data.dataset import labels_of
from tests.cli.run import aevlp
from tests.data.readers.test_voc import write_tree


def table(
    splits: tuple[str, ...], labels: list[list[int]] | None = None, truth: list[list[int]] | None = None, kind: str = "table"
) -> ImageTable:
    """Images with VOC's classes; `labels` and `truth` say how many positives each has, by columns."""

    def matrix(columns: list[list[int]], other: int) -> np.ndarray:
        values = np.full((len(splits), 20), other, np.int8)
        for row, positive in enumerate(columns):
            values[row, positive] = 1
        return values

    given = matrix(labels or [[]] * len(splits), 0)
    names = tuple(f"{i}.jpg" for i in range(len(splits)))
    return ImageTable(Path("root"), names, VOC.classes, given, splits, kind, None if truth is None else matrix(truth, -1))


def found(image_set: ImageTable) -> dict[str, str]:
    comparison = compare_with_benchmark(image_set)
    assert comparison is not None
    return {name: found for name, found, _ in comparison.statistics}


def test_statistics_beside_each_other() -> None:
    comparison = compare_with_benchmark(table(("train", "train", "test"), [[0], [1, 2], [3]]))
    assert comparison is not None
    assert comparison.benchmark is VOC
    assert comparison.statistics == (
        ("train images", "2", "5,717"),
        ("test images", "1", "5,823"),
        ("classes", "20", "20"),
        ("labels per train image", "1.500", "1.457"),
        ("labels per test image", "1.000", "1.434"),
    )
    assert comparison.differing == ("train images", "test images", "labels per train image", "labels per test image")


def test_validation_images_are_training_images_of_the_field() -> None:
    figures = found(table(("train", "val", "test", "train"), [[0], [1, 2], [3], [4]]))
    assert figures["train and val images"] == "3"
    assert figures["labels per train and val image"] == "1.333"


def test_complete_labels_are_counted_where_they_are_known() -> None:
    assert found(table(("train", "test"), [[0], [1]], [[0, 5, 6], [1, 2]]))["labels per train image"] == "3.000"


def test_a_split_that_is_not_there_is_not_compared() -> None:
    assert found(table(("test",))) == {"test images": "1", "classes": "20", "labels per test image": "0.000"}


def test_what_is_no_benchmark() -> None:
    image_set = table(("train",))
    other = ImageTable(image_set.root, image_set.names, tuple("abcdefghijklmnopqrst"), image_set.labels, ("train",), "table")
    assert compare_with_benchmark(other) is None


def test_the_verdict(tmp_path: Path) -> None:
    report = report_on(write_tree(tmp_path / "VOC2012"))
    full = [[0, 1]] * 2613 + [[0]] * 3104
    assert "\nall as the field expects\n" in render(replace(report, comparison=compare_with_benchmark(whole(full))))
    # One label of each is not another set: published results are on such.
    assert (
        "\nlabels per training image differ from those of the full labels, as expected where only some are observed\n"
        in render(replace(report, comparison=compare_with_benchmark(whole([[0]] * 5717))))
    )
    assert "\ndiffers from the set that the field reports on (train images): a subset" in render(
        replace(report, comparison=compare_with_benchmark(whole(full[1000:2000])))
    ).replace(", labels per train image", "")


def whole(train: list[list[int]]) -> ImageTable:
    """Training images with these columns, and as many test images with as many labels as VOC has."""
    return table(("train",) * len(train) + ("test",) * 5823, [*train, *([[0, 1]] * 2527), *([[0]] * 3296)])


@pytest.fixture(scope="module")
def voc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """PASCAL VOC 2012 as a table, with small images."""
    archive = Path(os.environ.get("AEVLP_SHARED", ""), "data", "voc2012-224.tar")
    if "AEVLP_SHARED" not in os.environ or not archive.is_file():
        pytest.skip("set AEVLP_SHARED to a folder with data/voc2012-224.tar to check PASCAL VOC 2012 itself")
    folder = tmp_path_factory.mktemp("voc")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    yield folder / "voc2012-224"
    shutil.rmtree(folder)


def test_check_on_voc_2012(voc: Path, capsys) -> None:
    answer = aevlp(capsys, "check", voc, "--observe", "single")
    assert answer.code == 0
    assert (
        "PASCAL VOC 2012           found  expected\n"
        "  train images            5,717     5,717\n"
        "  test images             5,823     5,823\n"
        "  classes                    20        20\n"
        "  labels per train image  1.457     1.457\n"
        "  labels per test image   1.434     1.434\n"
        "all as the field expects\n"
    ) in answer.out
    assert "train   5,717       1.000 (1 to 1)" in answer.out


def test_single_positives_of_voc_2012_are_the_published_ones(voc: Path) -> None:
    full, single = read(voc), read(voc / "single_positive.csv")
    drawn, _ = labels_of(full, "train", observe="single")
    expected = {
        name: row for name, row, split in zip(single.names, single.labels, single.splits, strict=True) if split == "train"
    }
    names = [name for name, split in zip(full.names, full.splits, strict=True) if split == "train"]
    assert single.classes == full.classes
    assert names == list(expected)
    assert np.array_equal(drawn == 1, np.stack(list(expected.values())) == 1)
