"""Coverage of an audit's intervals: 100 audits of 100 images each, on sets whose truth is known.

    python -m tools.audit_coverage --first 0 --audits 100

Prints a line per kind of set: the mean number of proposals and their true precision; in how many audits the interval of the
precision and that of the recall hold the truth, and how wide they are on average; in how many a line was drawn above which all
proposals are to keep a precision of 0.9, and in how many of these they do.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from aevlp.data.annotations import WHOLE_IMAGE, Annotations, Answer, Rows, ScoredCells
from aevlp.data.dataset import ImageTable
from aevlp.inference.review.audit import AuditFigures, draw_audit, measure_audit

PRECISION = 0.9
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Kind:
    """A kind of image sets."""

    images: int
    classes: int
    rate: float  # labels per cell
    skill: float  # distance between the scores of present and of absent labels, in standard deviations
    proposed: float  # share of the cells
    spread: float  # standard deviation of the images' own log odds: with a great one, few images hold most of the labels


KINDS = {
    "strong predictors": Kind(1000, 20, 0.05, 4.0, 0.02, 0.5),
    "weak predictors": Kind(1000, 20, 0.08, 1.5, 0.03, 0.5),
    "poor predictors": Kind(1000, 20, 0.05, 0.7, 0.05, 0.5),
    "few proposals": Kind(1000, 20, 0.05, 1.5, 0.002, 0.3),
    "hardly any proposals": Kind(2000, 20, 0.05, 1.5, 0.0005, 0.3),
    "many labels per image": Kind(1000, 40, 0.15, 2.0, 0.1, 1.0),
    "a small set": Kind(150, 12, 0.1, 2.0, 0.05, 0.5),
    "proposals in few images": Kind(1000, 20, 0.08, 2.0, 0.05, 2.0),
}


@dataclass(frozen=True, eq=False)
class SimulatedSet:
    """An image set with proposals whose truth [N, C] is known."""

    table: ImageTable
    truth: Flags

    @property
    def right(self) -> Flags:
        """The proposals that are right, [M]."""
        cells = self.table.annotations.scores
        found: Flags = self.truth[cells.rows, cells.columns]
        return found

    @property
    def precision(self) -> float:
        """The true precision of the proposals."""
        return float(self.right.mean())

    @property
    def recall(self) -> float:
        """The true recall of the proposals."""
        return float(self.right.sum() / (self.truth & (self.table.labels != 1)).sum())

    def audited(self, rows: Rows) -> ImageTable:
        """Return the table after a person has answered some images completely."""
        labels, splits = self.table.labels.copy(), np.array(self.table.splits, dtype=object)
        labels[rows], splits[rows] = np.where(self.truth[rows], 1, -1), "val"
        cells = zip(*np.nonzero((labels != 0) & (self.table.labels == 0)), strict=True)
        answers = {(int(row), int(column)): Answer() for row, column in cells} | {
            (int(row), WHOLE_IMAGE): Answer() for row in rows
        }
        annotations = Annotations(frozenset(rows.tolist()), answers, self.table.annotations.scores)
        return replace(self.table, labels=labels, splits=tuple(splits.tolist()), annotations=annotations)


def simulate(kind: Kind, rng: np.random.Generator) -> SimulatedSet:
    """Draw a set: one label of each image is given, and the surest of the other cells are proposed."""
    shape, prior = (kind.images, kind.classes), np.log(kind.rate / (1 - kind.rate))
    odds = prior + rng.normal(0, kind.spread, (kind.images, 1)) + rng.normal(0, 0.7, (1, kind.classes))
    truth = rng.random(shape) < 1 / (1 + np.exp(-odds))
    score = kind.skill * truth + rng.normal(size=shape) + rng.normal(0, kind.spread / 2, (kind.images, 1))
    confidence = 1 / (1 + np.exp(-(kind.skill * score - kind.skill**2 / 2 + prior)))
    given = truth & (np.cumsum(truth, axis=1) == 1)
    rows, columns = np.nonzero((confidence >= np.quantile(confidence, 1 - kind.proposed)) & ~given)
    cells = ScoredCells(
        rows.astype(np.int32),
        columns.astype(np.int32),
        np.zeros(len(rows), np.int8),
        confidence[rows, columns].astype(np.float32),
        {},
    )
    names, classes = (tuple(map(str, range(count))) for count in shape)
    splits = ("train",) * kind.images
    table = ImageTable(Path("set"), names, classes, given.astype(np.int8), splits, "table", annotations=Annotations(scores=cells))
    return SimulatedSet(table, truth)


@dataclass(frozen=True)
class Trial:
    """An audit of a simulated set."""

    proposed: int
    precision: float
    is_precision_covered: bool
    precision_width: float
    is_recall_covered: bool
    recall_width: float
    is_line_kept: bool | None  # None: there is no line


def trial(kind: Kind, seed: int, images: int = 100) -> Trial:
    """Draw a set, audit it and compare."""
    drawn = simulate(kind, np.random.default_rng(seed))
    rows = draw_audit(drawn.table, images, seed)
    found = measure_audit(drawn.audited(rows), rows, PRECISION)
    return Trial(
        len(drawn.table.annotations.scores),
        drawn.precision,
        found.precision.low - 1e-9 <= drawn.precision <= found.precision.high + 1e-9,
        found.precision.high - found.precision.low,
        found.recall.low - 1e-9 <= drawn.recall <= found.recall.high + 1e-9,
        found.recall.high - found.recall.low,
        _is_line_kept(drawn, rows, found),
    )


def _is_line_kept(drawn: SimulatedSet, rows: Rows, found: AuditFigures) -> bool | None:
    if found.line is None:
        return None
    cells = drawn.table.annotations.scores
    above = ~np.isin(cells.rows, rows) & (cells.confidence >= found.line)
    return bool(drawn.right[above].mean() >= PRECISION)


def line(name: str, trials: Sequence[Trial]) -> str:
    """Return a row of the table, in Markdown."""
    drawn = [each.is_line_kept for each in trials if each.is_line_kept is not None]
    means = [
        np.mean([getattr(each, key) for each in trials]) for key in ("proposed", "precision", "precision_width", "recall_width")
    ]
    covered = [sum(getattr(each, key) for each in trials) for key in ("is_precision_covered", "is_recall_covered")]
    cells = (
        *(name, f"{means[0]:.0f}", f"{means[1]:.2f}", f"{covered[0]} of {len(trials)}", f"{means[2]:.2f}"),
        *(f"{covered[1]} of {len(trials)}", f"{means[3]:.2f}", f"{len(drawn)}, {sum(drawn)}"),
    )
    return f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.audit_coverage", description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=0, help="seed of the first audit")
    parser.add_argument("--audits", type=int, default=100)
    parser.add_argument("--images", type=int, default=100, help="images of an audit")
    args = parser.parse_args(argv)
    for name, kind in KINDS.items():
        print(line(name, [trial(kind, seed, args.images) for seed in range(args.first, args.first + args.audits)]), flush=True)


if __name__ == "__main__":
    main()
