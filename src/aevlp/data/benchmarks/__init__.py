"""Facts of the benchmarks that the literature on missing labels reports on: how large each is, and where it comes from."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import yaml

from aevlp.core.yaml_lines import read_nodes

PROMPT_TABLES = Path(__file__).parent
"""Folder of the prompt tables, NAME.yaml: a line `class: prompt` per class, in the official order."""


@dataclass(frozen=True)
class Counts:
    """What the field expects of a split."""

    images: int
    labels_per_image: float | None = None
    """Mean number of positives in the full labels, to three decimals; None where it is not established."""


@dataclass(frozen=True)
class Benchmark:
    """A published image set, as the field trains and tests on it."""

    name: str
    """Also the name of its reader, its recipe and its table of prompts."""
    title: str
    train: Counts
    test: Counts
    """The split that results are reported on, which the benchmark itself may call val."""
    class_count: int
    page: str
    """Where it is published."""
    archives: Mapping[str, str]
    """What there is -> the official file that holds it."""
    remark: str | None = None
    """What somebody who compares counts should know."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the official order."""
        return benchmark_classes(self.name)

    def source(self, piece: str) -> str:
        """For the end of a message: where an official piece comes from."""
        return f"it is in {self.archives[piece]} (see {self.page})"


def benchmark_classes(name: str) -> tuple[str, ...]:
    """Return the class names of a benchmark (voc, coco, nus, cub) in its official order: the keys of its prompt table."""
    table = read_nodes(PROMPT_TABLES / f"{name}.yaml")
    assert isinstance(table, yaml.MappingNode)
    return tuple(key.value for key, _ in table.value)


def _benchmark(
    name: str,
    title: str,
    train: Counts,
    test: Counts,
    class_count: int,
    page: str,
    *,
    remark: str | None = None,
    **archives: str,
) -> Benchmark:
    return Benchmark(name, title, train, test, class_count, page, MappingProxyType(archives), remark)


VOC = _benchmark(
    "voc",
    "PASCAL VOC 2012",
    Counts(5_717, 1.457),
    Counts(5_823, 1.434),
    20,
    "http://host.robots.ox.ac.uk/pascal/VOC/",
    VOC2012="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar",
    VOC2007="http://host.robots.ox.ac.uk/pascal/VOC/voc2007/VOCtrainval_06-Nov-2007.tar",
)
COCO = _benchmark(
    "coco",
    "COCO 2014",
    Counts(82_081),
    Counts(40_137),
    80,
    "https://cocodataset.org/#download",
    annotations2014="http://images.cocodataset.org/annotations/annotations_trainval2014.zip",
    annotations2017="http://images.cocodataset.org/annotations/annotations_trainval2017.zip",
    train2014="http://images.cocodataset.org/zips/train2014.zip",
    val2014="http://images.cocodataset.org/zips/val2014.zip",
    train2017="http://images.cocodataset.org/zips/train2017.zip",
    val2017="http://images.cocodataset.org/zips/val2017.zip",
)
NUS = _benchmark(
    "nus",
    "NUS-WIDE",
    Counts(150_000),
    Counts(60_260),
    81,
    "https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html",
    remark="published results are on a set exchanged as formatted .npy files (150,000 and 60,260 images); "
    "the official lists name 161,789 and 107,859",
    image_list="ImageList.zip",
    labels="Groundtruth.zip",
    concepts="ConceptsList.zip",
    images="the archive of images sent on request (Flickr/)",
)
CUB = _benchmark(
    "cub",
    "CUB-200-2011",
    Counts(5_994),
    Counts(5_794),
    312,
    "https://www.vision.caltech.edu/datasets/cub_200_2011/",
    everything="CUB_200_2011.tgz",
)
BENCHMARKS = (VOC, COCO, NUS, CUB)


def benchmark_of(kind: str, classes: Collection[str]) -> Benchmark | None:
    """The benchmark that an image set is, by its reader or, in any order, exactly its class names; None if it is none."""
    for benchmark in BENCHMARKS:
        if kind == benchmark.name:
            return benchmark
    for benchmark in BENCHMARKS:
        if len(classes) == benchmark.class_count and set(classes) == set(benchmark.classes):
            return benchmark
    return None
