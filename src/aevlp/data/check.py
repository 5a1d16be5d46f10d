"""Check an image set: describe how it was understood, and list what is wrong with it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aevlp.core.errors import UserError, first_few
from aevlp.core.tables import aligned
from aevlp.data.annotations import State
from aevlp.data.benchmarks import Benchmark, benchmark_of
from aevlp.data.dataset import SPLITS, ImageTable, Labels, hold_out, labels_of, prepare, require_examples
from aevlp.data.images import bad_images
from aevlp.data.load import DataOptions, read_answered

# The most lines that the text shows of each list; of the frequency table, at either end.
MOST_FILES = 20
MOST_GROUPS = 5
MOST_CLASSES = 10

PerImage = tuple[float, int, int]  # mean, least and most labels of an image
BenchmarkStatistic = tuple[str, str, str]  # name, value found, value expected of the benchmark


@dataclass(frozen=True)
class SplitReport:
    """One split of the table, as a model will observe it."""

    name: str
    images: int
    positives: PerImage
    negatives: PerImage
    unlabelled: int  # number of images without any observed label


@dataclass(frozen=True)
class Comparison:
    """The statistics of an image set beside those of the benchmark that it is."""

    benchmark: Benchmark
    statistics: tuple[BenchmarkStatistic, ...]

    @property
    def differing(self) -> tuple[str, ...]:
        """The names of the statistics that are not as expected."""
        return tuple(name for name, found, expected in self.statistics if found != expected)


@dataclass(frozen=True)
class Report:
    """The findings of `aevlp check`."""

    path: Path
    kind: str
    images: int
    classes: tuple[str, ...]
    splits: tuple[SplitReport, ...]
    held_out: int  # number of training images that become the validation split; 0 if the set has one, or cannot be trained on
    examples: dict[str, int]  # class -> observed positives in the training split, before any are held out
    without_examples: tuple[str, ...]  # classes without an observed positive among the images to train on
    unreadable: dict[str, str]  # image -> reason
    duplicates: tuple[tuple[str, ...], ...]  # groups of images whose files are equal
    leaks: tuple[tuple[str, ...], ...]  # the groups of equal files that lie in several splits
    problems: list[str]  # obstacles to training; if there are none, the image set is usable
    notes: tuple[str, ...] = ()  # remarks of the reader
    comparison: Comparison | None = None  # comparison with the published counts, if the set is a benchmark


def report_on(path: Path, options: DataOptions | None = None) -> Report:
    """Return a report on the image set at a path; decode every image. Raise a UserError if no format fits."""
    options = options or DataOptions()
    table = read_answered(path, options)
    how: dict[str, Any] = {"observe": options.observe, "zeros": options.zeros, "proposed": options.proposed}
    observed = {name: labels_of(table, name, **how)[0] for name in SPLITS if name in table.splits}
    bad = bad_images(table.paths)
    problems = []
    if bad:
        problems.append(
            f"{len(bad)} of {len(table.names)} images cannot be read; replace or remove them, or leave them out with "
            "--bad-images skip"
        )
    without: tuple[str, ...] = ()
    held_out = 0
    try:
        dataset = prepare(table, **how, exclude=frozenset(bad))
        without = dataset.classes_without_positive()
        if "val" not in table.splits:
            held_out = len(hold_out(table.splits.count("train"))[1])
        if options.classes_without_examples == "stop" and len(without) < len(table.classes):  # without any, it is for labelling
            require_examples(dataset)
    except UserError as error:
        problems.append(str(error))
    examples = (observed["train"] == 1).sum(axis=0) if "train" in observed else [0] * len(table.classes)
    duplicates = _duplicates(table, frozenset(bad))
    return Report(
        path=path,
        kind=table.kind,
        images=len(table.names),
        classes=table.classes,
        splits=tuple(_split_report(name, labels) for name, labels in observed.items()),
        held_out=held_out,
        examples={name: int(count) for name, count in zip(table.classes, examples, strict=True)},
        without_examples=without,
        unreadable={table.names[row]: reason for row, reason in bad.items()},
        duplicates=tuple(tuple(table.names[row] for row in rows) for rows in duplicates),
        leaks=tuple(
            tuple(table.names[row] for row in rows) for rows in duplicates if len({table.splits[row] for row in rows}) > 1
        ),
        problems=problems,
        notes=(*table.notes, *_state_lines(table, options)),
        comparison=compare_with_benchmark(table),
    )


def _state_lines(table: ImageTable, options: DataOptions) -> list[str]:
    """Describe the labels that people have answered or predictors have proposed."""
    values, counts = np.unique(table.annotations.states(table.labels), return_counts=True)
    count = Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    lines = []
    if table.annotations.answers or table.annotations.complete:
        lines.append(
            f"answers of people: {count[State.ACCEPTED]:,} labels accepted, {count[State.REJECTED]:,} confirmed to be absent, "
            f"{len(table.annotations.complete):,} images complete"
        )
    if proposed := count[State.PROPOSED]:
        lines.append(f"proposed labels that nobody has confirmed: {proposed:,}; they count as {options.proposed} (--proposed)")
    return lines


def compare_with_benchmark(table: ImageTable) -> Comparison | None:
    """Compare an image set with the benchmark that it is; return None if it is none.

    The field holds validation images out of the training images, so both count as training images. A missing split is not
    compared. Labels per image are counted in the complete labels or, where these are not known, in the given ones.
    """
    benchmark = benchmark_of(table.kind, table.classes)
    if benchmark is None:
        return None
    splits = np.array(table.splits)
    positives = ((table.labels if table.truth is None else table.truth) == 1).sum(axis=1)
    training = "train and val" if "train" in table.splits and "val" in table.splits else "train"
    images: list[BenchmarkStatistic] = []
    labels: list[BenchmarkStatistic] = []
    for name, rows, expected in ((training, splits != "test", benchmark.train), ("test", splits == "test", benchmark.test)):
        if not rows.any():
            continue
        images.append((f"{name} images", f"{rows.sum():,}", f"{expected.images:,}"))
        if expected.labels_per_image is not None:
            found = f"{positives[rows].mean():.3f}"
            labels.append((f"labels per {name} image", found, f"{expected.labels_per_image:.3f}"))
    classes = ("classes", f"{len(table.classes)}", f"{benchmark.class_count}")
    return Comparison(benchmark, (*images, classes, *labels))


def _split_report(name: str, observed: Labels) -> SplitReport:
    def per_image(value: int) -> PerImage:
        counts = (observed == value).sum(axis=1)
        return float(counts.mean()), int(counts.min()), int(counts.max())

    unlabelled = int((observed == 0).all(axis=1).sum())
    return SplitReport(name, len(observed), per_image(1), per_image(-1), unlabelled)


def _duplicates(table: ImageTable, unreadable: frozenset[int]) -> list[list[int]]:
    """Return the rows of each group of equal files, in the order of their first rows."""
    rows = np.setdiff1d(np.arange(len(table.names)), list(unreadable))
    rows = rows[np.argsort(table.digests[rows], kind="stable")]
    starts = np.flatnonzero(table.digests[rows[1:]] != table.digests[rows[:-1]]) + 1
    sizes = np.diff(starts, prepend=0, append=len(rows))
    firsts = np.append(0, starts)[sizes > 1]
    return sorted(rows[first : first + size].tolist() for first, size in zip(firsts, sizes[sizes > 1], strict=True))


def render(report: Report) -> str:
    """Return the report as text for a terminal or a file."""
    lines = [
        f"{report.path}: {report.kind}, {report.images:,} images, {len(report.classes)} classes",
        "",
        *_split_lines(report),
        *_expected_lines(report.comparison),
        "",
        *_class_lines(report),
    ]
    if report.unreadable:
        lines += ["", f"files that cannot be read ({len(report.unreadable)})"]
        lines += _shortened([f"{name}: {reason}" for name, reason in report.unreadable.items()], MOST_FILES)
    if report.duplicates:
        lines += ["", f"groups of equal files ({len(report.duplicates)})"]
        # Leaks first: they are the ones that spoil results.
        leaks = set(report.leaks)
        groups = sorted(report.duplicates, key=lambda group: group not in leaks)
        lines += _shortened([" = ".join(group) + " (in several splits)" * (group in leaks) for group in groups], MOST_GROUPS)
    if report.leaks:
        lines += [f"in several splits ({len(report.leaks)}), a leak: results on these images mean nothing"]
    fine = "Nothing else is wrong: training can begin." if report.leaks else "No problems found."
    lines += ["", *(f"Problem: {problem}" for problem in report.problems)] if report.problems else ["", fine]
    # File names need not be valid text; bytes that are not are shown escaped.
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()


def _shortened(lines: list[str], most: int) -> list[str]:
    more = [f"  ... and {len(lines) - most} more"] if len(lines) > most else []
    return [*(f"  {line}" for line in lines[:most]), *more]


def _split_lines(report: Report) -> list[str]:
    def cell(mean: float, least: int, most: int) -> str:
        return f"{mean:.3f} ({least} to {most})"

    rows = [("split", "images", "positives per image", "negatives per image", "without labels")]
    rows += [
        (split.name, f"{split.images:,}", cell(*split.positives), cell(*split.negatives), f"{split.unlabelled:,}")
        for split in report.splits
    ]
    lines = aligned(rows)
    if report.held_out:
        lines.append(f"held out of train for validation: {report.held_out:,} images")
    return [*lines, *report.notes]


def _expected_lines(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return []
    benchmark = comparison.benchmark
    rows = [(benchmark.title, "found", "expected")]
    rows += [(f"  {name}", found, expected) for name, found, expected in comparison.statistics]
    lines = ["", *aligned(rows), _verdict(comparison.differing)]
    return [*lines, f"note: {benchmark.remark}"] if benchmark.remark else lines


def _verdict(differing: tuple[str, ...]) -> str:
    if not differing:
        return "all as the field expects"
    if all(name.startswith("labels per train") for name in differing):
        return "labels per training image differ from those of the full labels, as expected where only some are observed"
    return (
        f"differs from the set that the field reports on ({', '.join(differing)}): a subset or another edition is fine, "
        "but its results do not compare with published ones"
    )


def _class_lines(report: Report) -> list[str]:
    ranked = sorted(report.examples.items(), key=lambda item: -item[1])
    rows = [(f"  {name}", f"{count:,}") for name, count in ranked]
    if len(rows) > 2 * MOST_CLASSES:
        rows = [*rows[:MOST_CLASSES], ("  ...", ""), *rows[-MOST_CLASSES:]]
    lines = ["training examples per class, most frequent first", *aligned(rows)]
    if report.without_examples:
        without = report.without_examples
        lines.append(f"classes without an example to train on ({len(without)}): {first_few(without, MOST_CLASSES)}")
        if len(without) < len(report.classes):
            lines.append("  a teacher may speak for them; methods without one need --classes-without-examples drop")
    return lines
