import pytest

from aevlp.data.benchmarks import BENCHMARKS, COCO, CUB, NUS, VOC, Benchmark, benchmark_of
from aevlp.data.readers import readers


@pytest.mark.parametrize(
    ("benchmark", "train", "test", "classes"),
    [(VOC, 5717, 5823, 20), (COCO, 82081, 40137, 80), (NUS, 150000, 60260, 81), (CUB, 5994, 5794, 312)],
)
def test_the_counts_of_the_field(benchmark: Benchmark, train: int, test: int, classes: int) -> None:
    assert (benchmark.train.images, benchmark.test.images, benchmark.class_count) == (train, test, classes)
    assert len(set(benchmark.classes)) == classes


def test_labels_per_image_where_they_are_known() -> None:
    assert (VOC.train.labels_per_image, VOC.test.labels_per_image) == (1.457, 1.434)
    assert {b.train.labels_per_image for b in BENCHMARKS if b is not VOC} == {None}


def test_the_official_order_of_classes() -> None:
    assert VOC.classes == tuple(sorted(VOC.classes))
    assert COCO.classes[:3] == ("person", "bicycle", "car")
    assert COCO.classes[-1] == "toothbrush"
    assert NUS.classes[:2] == ("airport", "animal")
    assert CUB.classes[0] == "has_bill_shape::curved_(up_or_down)"


def test_every_benchmark_has_a_reader_of_its_name() -> None:
    assert {benchmark.name for benchmark in BENCHMARKS} <= {reader.name for reader in readers()}


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_a_benchmark_is_known_by_its_reader_or_by_exactly_its_classes(benchmark: Benchmark) -> None:
    assert benchmark_of(benchmark.name, ("a", "b")) is benchmark
    assert benchmark_of("table", benchmark.classes) is benchmark
    assert benchmark_of("folder", benchmark.classes[::-1]) is benchmark
    assert benchmark_of("table", benchmark.classes[1:]) is None
    assert benchmark_of("table", (*benchmark.classes[1:], "something else")) is None


def test_where_a_piece_comes_from() -> None:
    assert CUB.source("everything") == "it is in CUB_200_2011.tgz (see https://www.vision.caltech.edu/datasets/cub_200_2011/)"
    for benchmark in BENCHMARKS:
        assert all(benchmark.page in benchmark.source(piece) for piece in benchmark.archives)
