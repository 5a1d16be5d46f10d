"""The value of an answer: label F1 and test mAP against the clicks and keys of a review, with the true labels answering.

    python -m tools.review_value run --world voc2012-224 --name VOC --teacher lit:teacher --features resnet50.npz --out value
    python -m tools.review_value run --world demo-run/world --name demo --teacher demo --recipe demo --out value
    python -m tools.review_value table value/value.jsonl
    python -m tools.review_value plot value/value.jsonl --out docs/review-value.png

`run` draws training images with one tag each from a fully labelled set and reviews them by several strategies. After 0, 50, 200,
... answered grids or images a model is trained and labels are proposed again, as a user would; at those points, and only there,
F1 and mAP are measured. A line per point goes to `value.jsonl`.

Keys and clicks: a grid costs one to settle and one for each exception (the rest is accepted or rejected, whichever has fewer); an
image costs one to go on and one for each label that is added or taken away; plain labelling costs one for each label that is not
the tag, and one to go on.
"""

import argparse
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import aevlp
from aevlp.core.seeds import seed_for
from aevlp.data.annotations import COMPLETE, Annotations, ScoredCells, ScoreKind, no_scores
from aevlp.data.answers import ACCEPTED, REJECTED, AnswerStore, GivenAnswer
from aevlp.data.dataset import ImageTable, rows_of
from aevlp.data.readers import read
from aevlp.inference.review.audit import draw_audit
from aevlp.inference.review.queue import suggest_grids, suggest_images
from tools.claims import UserSet

POINTS = (0, 50, 200, 500, 1000, 2000)
GRID = 24  # cells
AUDITED = 100  # images
AT_ONCE = 10  # units answered before the queue is asked again
Flags = npt.NDArray[np.bool_]
Row = dict[str, Any]


def draw(table: ImageTable, seed: int, images: int, tested: int) -> UserSet:
    """Draw training images of the table, with one of their labels each, and test images."""
    rng = np.random.default_rng(seed_for(seed, "review value"))
    train, test = (rng.permutation(rows_of(table, split)) for split in ("train", "test"))
    train = np.sort(train[(table.labels[train] == 1).any(1)][:images])
    shown = np.array([rng.choice(np.flatnonzero(labels == 1)) for labels in table.labels[train]])
    every = np.arange(len(table.classes))
    return UserSet(table, every, train, shown, np.zeros(0, np.intp), np.sort(test[:tested]), False)


class Review:
    """A review of the training images by somebody who knows the truth [N, C]."""

    def __init__(self, data: Path, store: AnswerStore, truth: Flags) -> None:
        self.data, self.store, self.truth = data, store, truth
        table = read(data, None)
        rows = rows_of(table, "train")
        self.classes, self.keys_of = table.classes, store.keys_of(table.root, [table.names[row] for row in rows])
        self.labels = table.labels[rows].copy()
        self.is_complete = np.zeros(len(rows), bool)
        self.scores = no_scores()
        self.units = self.keys = 0

    @property
    def is_open(self) -> Flags:
        """The scored cells that nobody has answered, [M]; a label that was given and is doubted is true here, and left out."""
        found: Flags = self.labels[self.scores.rows, self.scores.columns] == 0
        return found

    @property
    def proposed(self) -> Flags:
        """The proposed labels that nobody has answered, bool [N, C]."""
        cells, found = self.scores.at(self.is_open).of(ScoreKind.PROPOSED), np.zeros(self.truth.shape, bool)
        found[cells.rows, cells.columns] = True
        return found

    def f1(self) -> float:
        """Return the F1 of the confirmed and proposed labels."""
        given = (self.labels == 1) | self.proposed
        return float(2 * (given & self.truth).sum() / (given.sum() + self.truth.sum()))

    def settle(self, rows: npt.NDArray[np.integer], columns: npt.NDArray[np.integer]) -> None:
        """Answer cells as one grid."""
        there = self.truth[rows, columns]
        keys = 1 + min(int(there.sum()), int((~there).sum()))
        self._record(list(zip(rows.tolist(), columns.tolist(), strict=True)), (), "grid", keys)

    def complete(self, row: int, *, proposed: Flags | None) -> None:
        """Answer a whole image; `proposed` [C] are the labels shown as chips, None: nothing but the tag is shown."""
        shown = (self.labels[row] == 1) | (False if proposed is None else proposed)
        changed = np.flatnonzero(shown != self.truth[row])
        cells = np.flatnonzero((self.labels[row] == 0) & (self.truth[row] | (False if proposed is None else proposed)))
        self._record([(row, int(column)) for column in cells], (row,), "image", 1 + len(changed))
        self.labels[row] = np.where(self.truth[row], 1, -1)
        self.is_complete[row] = True

    def _record(self, cells: Sequence[tuple[int, int]], complete: Sequence[int], kind: Any, keys: int) -> None:
        answers = [
            GivenAnswer(self.keys_of[row], self.classes[column], ACCEPTED if self.truth[row, column] else REJECTED)
            for row, column in cells
        ]
        answers += [GivenAnswer(self.keys_of[row], COMPLETE, ACCEPTED) for row in complete]
        self.store.record("simulated", answers, kind=kind, keys=keys)
        for row, column in cells:
            self.labels[row, column] = 1 if self.truth[row, column] else -1
        self.units, self.keys = self.units + 1, self.keys + keys


Strategy = Callable[[Review, np.random.Generator], Iterator[None]]
"""Answers a unit (a grid or an image) at each step, until nothing is left."""


def by_class(review: Review, rng: np.random.Generator) -> Iterator[None]:
    """Answer the grids of the queue."""
    while grids := suggest_grids(review.scores, review.is_open, (review.labels == 1).sum(0), size=GRID, most=AT_ONCE):
        for grid in grids:
            review.settle(review.scores.rows[grid.cells], review.scores.columns[grid.cells])
            yield


def by_image(review: Review, rng: np.random.Generator) -> Iterator[None]:
    """Answer the images of the queue, then those of which nothing is scored."""
    while images := suggest_images(review.scores, review.is_open, (review.labels == 1).sum(0), most=AT_ONCE):
        for image in images:
            review.complete(image.row, proposed=review.proposed[image.row])
            yield
    yield from at_random(review, rng)


def at_random(review: Review, rng: np.random.Generator) -> Iterator[None]:
    """Answer images in random order, with the proposed labels shown."""
    for row in rng.permutation(np.flatnonzero(~review.is_complete)):
        review.complete(int(row), proposed=review.proposed[row])
        yield


def from_scratch(review: Review, rng: np.random.Generator) -> Iterator[None]:
    """Answer images in random order, without proposals."""
    for row in rng.permutation(np.flatnonzero(~review.is_complete)):
        review.complete(int(row), proposed=None)
        yield


STRATEGIES: dict[str, Strategy] = {
    "queue by class": by_class,
    "audit, then queue by class": by_class,
    "queue by image": by_image,
    "random by image": at_random,
    "plain labelling": from_scratch,
}


@dataclass(frozen=True)
class Setting:
    """An image set to review, and the options of its predictors."""

    drawn: UserSet
    folder: Path
    train: dict[str, Any]  # arguments of `aevlp.train`
    folds: int
    seed: int

    def curve(self, name: str) -> Iterator[Row]:
        """Yield the figures at each point of a strategy."""
        folder = self.folder / name.replace(",", "").replace(" ", "-")
        folder.mkdir(parents=True)
        review = Review(self.folder / "labels.csv", AnswerStore(self.folder / f"{folder.name}.sqlite"), self.drawn.truth)
        rng = np.random.default_rng(seed_for(self.seed, name))
        for point in POINTS:
            steps = STRATEGIES[name](review, rng)
            if review.units < point and name.startswith("audit") and not review.store.audit():
                answer_audit(review, AUDITED, self.seed)
            before = review.units
            while review.units < point and next(steps, review) is None:
                pass
            if review.units == before < point:  # nothing was left to answer, even after labels were proposed again
                return
            proposes = name != "plain labelling"
            if point == 0:
                mAP, scores = self.start  # without an answer, every strategy begins alike
                review.scores = scores if proposes else no_scores()
            else:
                mAP = self._propose(review, folder / str(point), proposes=proposes)
            yield {"point": point, "units": review.units, "keys": review.keys, "f1": review.f1(), "mAP": mAP}

    @cached_property
    def start(self) -> tuple[float, ScoredCells]:
        """The test mAP and the scores before any answer."""
        review = Review(self.folder / "labels.csv", AnswerStore(self.folder / "start.sqlite"), self.drawn.truth)
        return self._propose(review, self.folder / "start" / "0", proposes=True), review.scores

    def _propose(self, review: Review, folder: Path, *, proposes: bool) -> float:
        """Train on the answers so far and propose labels again; return the test mAP in percent."""
        answers = {"data.answers": str(review.store.path)}
        options = {**self.train["options"], **answers}
        result = aevlp.train(review.data, folder / "run", **{**self.train, "options": options})
        if proposes and (review.labels == 0).any():
            out = self.folder / f"{folder.parent.name}-{folder.name}.jsonl"
            aevlp.label(review.data, out, run=folder / "run", folds=self.folds, options=answers)
            review.scores = train_scores(read(out, None), review)
        return float(result["mAP"])


def answer_audit(review: Review, images: int, seed: int) -> None:
    """Draw an audit and answer it."""
    table = read(review.data, None)
    train = rows_of(table, "train")
    scores = review.scores.at(np.arange(len(review.scores)), train[review.scores.rows].astype(np.int32))
    rows = np.searchsorted(train, draw_audit(replace(table, annotations=Annotations(scores=scores)), images, seed))
    review.store.keep_audit([review.keys_of[row] for row in rows])
    for row in rows.tolist():
        review.complete(row, proposed=review.proposed[row])


def train_scores(table: ImageTable, review: Review) -> ScoredCells:
    """Return the scores of a labelled file, by the rows of the review."""
    place = {key: row for row, key in enumerate(review.keys_of)}
    rows = np.array([place.get(key, -1) for key in review.store.keys_of(table.root, table.names)], np.int32)
    scores = table.annotations.scores
    moved = rows[scores.rows]
    return scores.at(moved >= 0, moved)


def run(args: argparse.Namespace) -> None:
    """Write the curves of all strategies on one drawn set."""
    drawn = draw(read(args.world, None), args.seed, args.images, args.tested)
    options: dict[str, Any] = {"damp.grid": 2, "damp.draws": 1, "damp.temperature": args.temperature, "report": False}
    options["features" if args.features else "train.mode"] = args.features or "linear"
    if args.image_size:
        options["model.image_size"] = args.image_size
    train = {"recipe": args.recipe, "teacher": args.teacher, "store": args.store, "epochs": args.epochs, "observe": "given"}
    train["backbone"] = args.backbone
    setting = Setting(
        drawn,
        drawn.write(args.out / f"{args.name}-{args.seed}"),
        {**train, "seed": args.seed, "options": options},
        args.folds,
        args.seed,
    )
    # A key to go on for each image, and one for each label but the tag: together, one for each label.
    about = {"set": args.name, "seed": args.seed, "images": len(drawn.train), "plain": int(drawn.truth.sum())}
    with (args.out / "value.jsonl").open("a") as file:
        for name in args.strategies:
            for row in setting.curve(name):
                file.write(json.dumps({**about, "strategy": name, **row}) + "\n")
                file.flush()


def table(rows: Sequence[Row]) -> str:
    """Return the curves as a table in Markdown, a line for each: at every point the share of the keys, F1 and mAP."""
    points = list(dict.fromkeys(row["point"] for row in rows))
    lines = [f"| set | strategy | seeds | {' | '.join(map(str, points))} |", "| --- " * (3 + len(points)) + "|"]
    for name, strategy in dict.fromkeys((row["set"], row["strategy"]) for row in rows):
        own = [row for row in rows if (row["set"], row["strategy"]) == (name, strategy)]
        cells = []
        for point in points:
            at = [row for row in own if row["point"] == point]
            mean = {key: float(np.mean([row[key] for row in at])) for key in ("keys", "plain", "f1", "mAP")} if at else None
            cells.append(f"{100 * mean['keys'] / mean['plain']:.0f} %, {mean['f1']:.3f}, {mean['mAP']:.1f}" if mean else "-")
        lines.append(f"| {name} | {strategy} | {len({row['seed'] for row in own})} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(rows: Sequence[Row], out: Path) -> None:
    """Draw F1 and mAP against the keys, a row of axes per set."""
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(row["set"] for row in rows))
    figure = Figure(figsize=(8, 2.7 * len(sets)), layout="constrained")
    for axes, name in zip(figure.subplots(len(sets), 2, squeeze=False), sets, strict=True):
        own = [row for row in rows if row["set"] == name]
        for strategy in dict.fromkeys(row["strategy"] for row in own):
            points = dict.fromkeys(row["point"] for row in own if row["strategy"] == strategy)
            curve = [[row for row in own if (row["strategy"], row["point"]) == (strategy, point)] for point in points]
            keys = [np.mean([row["keys"] for row in each]) for each in curve]
            for axis, figure_name in zip(axes, ("f1", "mAP"), strict=True):
                values = [np.mean([row[figure_name] for row in each]) for each in curve]
                axis.plot(keys, values, "o-", color=f"C{list(STRATEGIES).index(strategy)}", ms=3, label=strategy)
        fifth = np.mean([row["plain"] for row in own]) / 5
        for axis, title in zip(axes, ("F1 of the training labels", "test mAP, %"), strict=True):
            axis.axvline(fifth, color="grey", lw=0.8, ls=":")
            axis.set(xlabel="clicks and keys", title=f"{name}: {title}")
            axis.grid(alpha=0.3)
        axes[0].axhline(0.98, color="grey", lw=0.8, ls=":")
        axes[0].legend(fontsize=7)
    figure.savefig(out, dpi=90)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.review_value", description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("run", "table", "plot"))
    add = parser.add_argument
    add("files", nargs="*", type=Path, help="for table and plot")
    add("--world", type=Path, help="a fully labelled image set with the splits train and test")
    add("--name", help="name of the set in the tables")
    add("--teacher", help="teacher, as for aevlp label")
    add("--recipe", default=None)
    add("--features", default=None, help="train on these features instead of a backbone's")
    add("--backbone", default=None)
    add("--image-size", type=int, default=None)
    add("--temperature", type=float, default=0.05)
    add("--images", type=int, default=2000)
    add("--tested", type=int, default=2000)
    add("--epochs", type=int, default=5)
    add("--folds", type=int, default=3)
    add("--seed", type=int, default=0)
    add("--store", default=None)
    add("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    add("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    if args.command == "run":
        logging.basicConfig(level=logging.WARNING)
        run(args)
        return
    rows = [json.loads(line) for file in args.files for line in file.read_text().splitlines()]
    if args.command == "table":
        args.out.write_text(table(rows) + "\n")
    else:
        plot(rows, args.out)


if __name__ == "__main__":
    main()
