"""What the field expects of a benchmark, beside what was found."""

from dataclasses import dataclass

import numpy as np

from aevlp.data.benchmarks import Benchmark, benchmark_of
from aevlp.data.table import ImageTable


@dataclass(frozen=True)
class Figure:
    """One figure, as text: two that look equal are equal."""

    name: str
    found: str
    expected: str


@dataclass(frozen=True)
class Comparison:
    """An image set beside the benchmark that it is."""

    benchmark: Benchmark
    figures: tuple[Figure, ...]

    @property
    def differing(self) -> tuple[str, ...]:
        """The names of the figures that are not as expected."""
        return tuple(figure.name for figure in self.figures if figure.found != figure.expected)


def compared(table: ImageTable) -> Comparison | None:
    """The figures of an image set that is a benchmark, or None of one that is not.

    Validation images are counted as training images, of which the field holds them out; a split that is not there is not
    compared. Labels per image are those of the complete labels, or of what is given where these are not known.
    """
    benchmark = benchmark_of(table.kind, table.classes)
    if benchmark is None:
        return None
    splits = np.array(table.splits)
    positives = ((table.labels if table.truth is None else table.truth) == 1).sum(axis=1)
    training = "train and val" if "train" in table.splits and "val" in table.splits else "train"
    images, labels = [], []
    for name, rows, expected in (
        (training, splits != "test", benchmark.train),
        ("test", splits == "test", benchmark.test),
    ):
        if not rows.any():
            continue
        images.append(Figure(f"{name} images", f"{rows.sum():,}", f"{expected.images:,}"))
        if expected.labels_per_image is not None:
            found = f"{positives[rows].mean():.3f}"
            labels.append(Figure(f"labels per {name} image", found, f"{expected.labels_per_image:.3f}"))
    classes = Figure("classes", f"{len(table.classes)}", f"{benchmark.class_count}")
    return Comparison(benchmark, (*images, classes, *labels))
