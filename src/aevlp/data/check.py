"""What was understood of an image set, and what is wrong with it."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.data.classes import some
from aevlp.data.expected import Comparison, compared
from aevlp.data.images import bad_images
from aevlp.data.readers import read
from aevlp.data.splits import Observe, Zeros, hold_out, labels_of, prepare, require_examples
from aevlp.data.table import SPLITS, ImageTable, Labels

MOST_FILES = 20
MOST_GROUPS = 5
MOST_CLASSES = 10
"""How many unreadable files, groups of duplicates, and classes at either end of the frequency table are shown."""


@dataclass(frozen=True)
class PerImage:
    """How many labels of one sort an image has."""

    mean: float
    least: int
    most: int


@dataclass(frozen=True)
class SplitReport:
    """One split of the table, as it will be observed."""

    name: str
    images: int
    positives: PerImage
    negatives: PerImage
    unlabelled: int
    """Images of which no label at all is observed."""


@dataclass(frozen=True)
class Report:
    """What `aevlp check` says."""

    path: Path
    kind: str
    images: int
    classes: tuple[str, ...]
    splits: tuple[SplitReport, ...]
    held_out: int
    """How many training images become the validation part; 0 if the set has one, or cannot be trained on."""
    examples: dict[str, int]
    """Class -> observed positives in the training split, before any are held out."""
    without_examples: tuple[str, ...]
    """Classes without an observed positive among the images that are trained on."""
    unreadable: dict[str, str]
    """Image -> reason."""
    duplicates: tuple[tuple[str, ...], ...]
    """Groups of images whose files are equal."""
    leaks: tuple[tuple[str, ...], ...]
    """Those of the groups that lie in several splits."""
    problems: list[str]
    """What stops training; with none, the image set is usable."""
    notes: tuple[str, ...] = ()
    """What the reader has to tell."""
    comparison: Comparison | None = None
    """With the counts that the field expects, if the set is a benchmark."""


def check(
    path: Path,
    format: str | None = None,
    observe: Observe = "given",
    zeros: Zeros = "unknown",
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """A report on the image set at a path; every image is decoded. One not understood at all is a UserError."""
    return report_on(read(path, format), path, observe, zeros, workers=workers, progress=progress)


def report_on(
    table: ImageTable,
    path: Path,
    observe: Observe = "given",
    zeros: Zeros = "unknown",
    *,
    workers: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """The same of an image set that has been read from the path."""
    present = [name for name in SPLITS if name in table.splits]
    observed = {name: labels_of(table, name, observe=observe, zeros=zeros)[0] for name in present}
    bad = bad_images(table.paths, workers, progress)
    problems = []
    if bad:
        problems.append(
            f"{len(bad)} of {len(table.names)} images cannot be read; replace or remove them, or leave them out with "
            "--bad-images skip"
        )
    without: tuple[str, ...] = ()
    held_out = 0
    try:
        dataset = prepare(table, observe=observe, zeros=zeros, exclude=frozenset(bad))
        without = dataset.classes_without_positive()
        if "val" not in table.splits:
            held_out = len(hold_out(table.splits.count("train"))[1])
        if len(without) < len(table.classes):  # with nothing observed at all, it is a set to be labelled, not trained on
            require_examples(dataset)
    except UserError as error:
        problems.append(str(error))
    seen = (observed["train"] == 1).sum(axis=0) if "train" in observed else [0] * len(table.classes)
    groups = _duplicates(table, frozenset(bad))
    split_of = dict(zip(table.names, table.splits, strict=True))
    return Report(
        path=path,
        kind=table.kind,
        images=len(table.names),
        classes=table.classes,
        splits=tuple(_split_report(name, labels) for name, labels in observed.items()),
        held_out=held_out,
        examples={name: int(count) for name, count in zip(table.classes, seen, strict=True)},
        without_examples=without,
        unreadable={table.names[row]: reason for row, reason in bad.items()},
        duplicates=groups,
        leaks=tuple(group for group in groups if len({split_of[name] for name in group}) > 1),
        problems=problems,
        notes=table.notes,
        comparison=compared(table),
    )


def _split_report(name: str, observed: Labels) -> SplitReport:
    def per_image(value: int) -> PerImage:
        counts = (observed == value).sum(axis=1)
        return PerImage(float(counts.mean()), int(counts.min()), int(counts.max()))

    unlabelled = int((observed == 0).all(axis=1).sum())
    return SplitReport(name, len(observed), per_image(1), per_image(-1), unlabelled)


def _duplicates(table: ImageTable, unreadable: frozenset[int]) -> tuple[tuple[str, ...], ...]:
    alike: dict[str, list[int]] = defaultdict(list)
    for row, digest in enumerate(table.digests):
        if row not in unreadable:
            alike[digest].append(row)
    equal: dict[tuple[str, bytes], list[str]] = defaultdict(list)
    for digest, group in alike.items():
        for row in group if len(group) > 1 else ():
            # A digest leaves out the middle of the file, where uncompressed images with a plain border differ.
            content = blake2b((table.root / table.names[row]).read_bytes()).digest()
            equal[digest, content].append(table.names[row])
    return tuple(tuple(group) for group in equal.values() if len(group) > 1)


def render(report: Report) -> str:
    """The report as text for a terminal or a file."""
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
        lines += [f"  {name}: {reason}" for name, reason in list(report.unreadable.items())[:MOST_FILES]]
        lines += [f"  ... and {len(report.unreadable) - MOST_FILES} more"] * (len(report.unreadable) > MOST_FILES)
    if report.duplicates:
        lines += ["", f"groups of equal files ({len(report.duplicates)})"]
        # Leaks first: they are the ones that spoil results.
        shown = sorted(report.duplicates, key=lambda group: group not in report.leaks)[:MOST_GROUPS]
        lines += [f"  {' = '.join(group)}" + (" (in several splits)" * (group in report.leaks)) for group in shown]
        lines += [f"  ... and {len(report.duplicates) - MOST_GROUPS} more"] * (len(report.duplicates) > MOST_GROUPS)
    if report.leaks:
        lines += [f"in several splits ({len(report.leaks)}), a leak: results on these images mean nothing"]
    lines += ["", *(f"Problem: {problem}" for problem in report.problems)] if report.problems else ["", "No problems found."]
    # File names need not be valid text; what cannot be printed is shown escaped.
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()


def _split_lines(report: Report) -> list[str]:
    def cell(counts: PerImage) -> str:
        return f"{counts.mean:.3f} ({counts.least} to {counts.most})"

    rows = [("split", "images", "positives per image", "negatives per image", "without labels")]
    rows += [
        (split.name, f"{split.images:,}", cell(split.positives), cell(split.negatives), f"{split.unlabelled:,}")
        for split in report.splits
    ]
    lines = _aligned(rows)
    if report.held_out:
        lines.append(f"held out of train for validation: {report.held_out:,} images")
    return [*lines, *report.notes]


def _expected_lines(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return []
    benchmark = comparison.benchmark
    rows = [(benchmark.title, "found", "expected")]
    rows += [(f"  {figure.name}", figure.found, figure.expected) for figure in comparison.figures]
    lines = ["", *_aligned(rows)]
    lines.append(_verdict(comparison.differing))
    return [*lines, f"note: {benchmark.remark}"] if benchmark.remark else lines


def _verdict(differing: tuple[str, ...]) -> str:
    if not differing:
        return "all as the field expects"
    if all(name.startswith("labels per train") for name in differing):
        return "other labels per training image than the full labels have: as it is where only some are observed"
    return (
        f"differs from the set that the field reports on ({', '.join(differing)}): a subset or another edition is fine, "
        "but its results do not compare with published ones"
    )


def _class_lines(report: Report) -> list[str]:
    ranked = sorted(report.examples.items(), key=lambda item: -item[1])
    rows = [(f"  {name}", f"{count:,}") for name, count in ranked]
    if len(rows) > 2 * MOST_CLASSES:
        rows = [*rows[:MOST_CLASSES], ("  ...", ""), *rows[-MOST_CLASSES:]]
    lines = ["training examples per class, most frequent first", *_aligned(rows)]
    if report.without_examples:
        without = report.without_examples
        lines.append(f"classes without an example to train on ({len(without)}): {some(without, MOST_CLASSES)}")
    return lines


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """One line per row: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
