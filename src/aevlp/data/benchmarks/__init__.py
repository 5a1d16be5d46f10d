"""Facts about the benchmarks that the literature on missing labels reports on: sizes, class names and sources."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from aevlp.core.yaml_lines import read_nodes

PROMPT_TABLES = Path(__file__).parent  # of NAME.yaml, with a line `class: prompt` per class, in the official order


@dataclass(frozen=True)
class Counts:
    """The published size of a split."""

    images: int
    labels_per_image: float | None = None  # mean positives in the full labels, to three decimals; None: not established


@dataclass(frozen=True)
class Benchmark:
    """A published image set, as the field trains and tests on it."""

    name: str  # also the name of its reader, its recipe and its table of prompts
    title: str
    train: Counts
    test: Counts  # the split that results are reported on, which the benchmark itself may call val
    class_count: int
    page: str  # address of the page that publishes it
    archives: Mapping[str, str]  # piece -> the official file that holds it
    remark: str | None = None  # a caveat for whoever compares counts

    @property
    def classes(self) -> tuple[str, ...]:
        """The class names, in the official order: the keys of the prompt table."""
        table = read_nodes(PROMPT_TABLES / f"{self.name}.yaml")
        assert isinstance(table, yaml.MappingNode)
        return tuple(key.value for key, _ in table.value)

    def source(self, piece: str) -> str:
        """Return the origin of an official piece, for the end of a message."""
        return f"it is in {self.archives[piece]} (see {self.page})"


VOC = Benchmark(
    "voc",
    "PASCAL VOC 2012",
    train=Counts(5_717, 1.457),
    test=Counts(5_823, 1.434),
    class_count=20,
    page="http://host.robots.ox.ac.uk/pascal/VOC/",
    archives={
        "VOC2012": "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar",
        "VOC2007": "http://host.robots.ox.ac.uk/pascal/VOC/voc2007/VOCtrainval_06-Nov-2007.tar",
    },
)
COCO = Benchmark(
    "coco",
    "COCO 2014",
    train=Counts(82_081),
    test=Counts(40_137),
    class_count=80,
    page="https://cocodataset.org/#download",
    archives={
        f"{part}{year}": f"http://images.cocodataset.org/{place}{year}.zip"
        for part, place in (("annotations", "annotations/annotations_trainval"), ("train", "zips/train"), ("val", "zips/val"))
        for year in (2014, 2017)
    },
)
NUS = Benchmark(
    "nus",
    "NUS-WIDE",
    train=Counts(150_000),
    test=Counts(60_260),
    class_count=81,
    page="https://lms.comp.nus.edu.sg/wp-content/uploads/2019/research/nuswide/NUS-WIDE.html",
    archives={
        "image_list": "ImageList.zip",
        "labels": "Groundtruth.zip",
        "concepts": "ConceptsList.zip",
        "images": "the archive of images sent on request (Flickr/)",
    },
    remark="published results are on a set exchanged as formatted .npy files (150,000 and 60,260 images); "
    "the official lists name 161,789 and 107,859",
)
CUB = Benchmark(
    "cub",
    "CUB-200-2011",
    train=Counts(5_994),
    test=Counts(5_794),
    class_count=312,
    page="https://www.vision.caltech.edu/datasets/cub_200_2011/",
    archives={"everything": "CUB_200_2011.tgz"},
)
BENCHMARKS = (VOC, COCO, NUS, CUB)


def benchmark_of(kind: str, classes: Collection[str]) -> Benchmark | None:
    """Return the benchmark that an image set is, by its reader or by exactly its class names in any order; None if it is none."""
    by_reader = [benchmark for benchmark in BENCHMARKS if kind == benchmark.name]
    alike = (each for each in BENCHMARKS if len(classes) == each.class_count and set(classes) == set(each.classes))
    return by_reader[0] if by_reader else next(alike, None)
