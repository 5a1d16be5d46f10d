"""Coverage: do the figures that aevlp prints about itself hold on image sets like a user's?

    python -m tools.claims --world demo-run/world --teacher demo --sets 30 --out claims          # scenes of the demo
    python -m tools.claims --world voc2012-224 --teacher lit:teacher --features resnet50.npz ...    # photos

Draws image sets from a fully labelled one: 8 to 20 classes, 200 to 2,000 images with one label each, with or without 50 to 200
fully labelled images. On each it runs `aevlp.train` and `aevlp.label`, compares what they claim with the labels that were hidden,
and writes a line for each to `claims.jsonl`.
"""

import argparse
import csv
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

import aevlp
from aevlp.core.processes import EngineOptions
from aevlp.core.seeds import seed_for
from aevlp.data.dataset import ImageTable
from aevlp.data.load import DataOptions
from aevlp.data.readers import read
from aevlp.inference.completion.claims import ExpectedClaim, MeasuredClaim
from aevlp.inference.completion.result import Completion
from aevlp.inference.evaluation import evaluate_run
from aevlp.training.evaluate import label_metrics
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import read_thresholds

CLASSES, IMAGES, COMPLETE = (8, 20), (200, 2000), (50, 200)
TESTED = 1000  # images that thresholds are judged on
PRECISION = 0.9


@dataclass(frozen=True)
class UserSet:
    """An image set like a user's: rows of a fully labelled table, with the one label that each training image shows."""

    table: ImageTable
    columns: npt.NDArray[np.intp]
    train: npt.NDArray[np.intp]
    shown: npt.NDArray[np.intp]  # column of the shown label of each training image
    complete: npt.NDArray[np.intp]
    test: npt.NDArray[np.intp]
    is_collected_by_class: bool

    @property
    def truth(self) -> npt.NDArray[np.bool_]:
        """The labels of the training images, bool [N, C]."""
        found: npt.NDArray[np.bool_] = self.table.labels[self.train][:, self.columns] == 1
        return found

    def write(self, folder: Path) -> Path:
        """Write the set as a table; the images stay where they are."""
        classes = [self.table.classes[c] for c in self.columns]
        lines = [(row, classes[c], "train") for row, c in zip(self.train, self.shown, strict=True)]
        for split, rows in (("val", self.complete), ("test", self.test)):
            there = [np.flatnonzero(self.table.labels[row, self.columns] == 1) for row in rows]
            lines += [(row, ";".join(classes[c] for c in own), split) for row, own in zip(rows, there, strict=True)]
        folder.mkdir(parents=True, exist_ok=True)
        start = os.path.relpath(self.table.root, folder)
        with (folder / "labels.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["image", "labels", "split"])
            writer.writerows([f"{start}/{self.table.names[row]}", labels, split] for row, labels, split in lines)
        (folder / "classes.txt").write_text("".join(f"{name}\n" for name in classes))
        return folder


def draw_set(table: ImageTable, seed: int, most_classes: int) -> UserSet:
    """Draw a set. Every other one has fully labelled images; every third one was collected class by class."""
    rng = np.random.default_rng(seed_for(seed, "claims"))
    count = int(rng.integers(CLASSES[0], min(CLASSES[1], most_classes) + 1))
    columns = np.sort(rng.choice(len(table.classes), count, replace=False))
    labels = table.labels[:, columns] == 1
    pool = rng.permutation(np.flatnonzero(labels.any(1)))
    complete = int(rng.integers(*COMPLETE)) if seed % 2 == 0 else 0
    tested = min(TESTED, len(pool) // 3)
    wanted = int(np.exp(rng.uniform(*np.log(IMAGES))))
    test, val, rest = pool[:tested], pool[tested : tested + complete], pool[tested + complete :]
    shown = np.array([rng.choice(np.flatnonzero(labels[row])) for row in rest])
    by_class = seed % 3 == 0
    if by_class:
        each = max(wanted // count, 10)
        chosen = np.concatenate([np.flatnonzero(shown == c)[:each] for c in range(count)])
    else:
        chosen = np.arange(min(wanted, len(rest)))
    return UserSet(table, columns, rest[chosen], shown[chosen], val, test, by_class)


def true_figures(done: Completion, drawn: UserSet) -> dict[str, float]:
    """Return the true precision and recall of the new labels of training images, and their number."""
    classes = np.array([drawn.table.classes[c] for c in drawn.columns])
    truth = {PurePath(drawn.table.names[row]).name: set(classes[own]) for row, own in zip(drawn.train, drawn.truth, strict=True)}
    hits = count = hidden = 0
    for record in done:
        if record.split == "train":
            to_find = truth[PurePath(record.name).name] - set(record.observed)
            hidden, count, hits = hidden + len(to_find), count + len(record.proposed), hits + len(to_find & set(record.proposed))
    return {"new": count, "precision": hits / count if count else np.nan, "recall": hits / hidden if hidden else np.nan}


def claimed(done: Completion) -> dict[str, Any]:
    """Return the claim about the new labels."""
    match done.claim:
        case MeasuredClaim(_, precision, recall):
            return {
                **{"basis": "measured", "claimed": precision.value, "low": precision.low, "high": precision.high},
                **{"recall_low": recall.low, "recall_high": recall.high},
            }
        case ExpectedClaim(precision=value, low=low, high=high):
            return {"basis": "unverified", "claimed": value, "low": low, "high": high}
        case reason:
            return {"basis": str(reason).partition(":")[0]}


def threshold_figures(run: RunFolder, data: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Return the macro F1 on test images at 0.5, at one threshold for all classes, and at a threshold per class."""
    how: dict[str, Any] = {"features": args.features, "workers": 2, "store": args.store}
    found = evaluate_run(run, data, "test", options=DataOptions(), engine=EngineOptions(), **how)
    thresholds = read_thresholds(run.thresholds, found.classes)
    given = {"half": found.found >= 0.5, "common": found.found >= thresholds.overall, "per_class": thresholds.above(found.found)}
    positive = found.split.evaluation_labels == 1
    return {"basis": thresholds.basis, **{name: label_metrics(each, positive).macro_F1 for name, each in given.items()}}


def run_set(table: ImageTable, seed: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Train and label on one set; return a row for each claim."""
    drawn = draw_set(table, seed, args.classes)
    data = drawn.write(args.out / "sets" / f"{args.name}-{seed}")
    options = {"damp.grid": args.grid, "damp.draws": 1, "damp.temperature": args.temperature, "report": False}
    common: dict[str, Any] = {"teacher": args.teacher, "store": args.store}
    about = {
        **{"set": args.name, "seed": seed, "classes": len(drawn.columns), "images": len(drawn.train)},
        **{"complete": len(drawn.complete), "by_class": drawn.is_collected_by_class},
    }
    rows = []
    run = args.out / "runs" / f"{args.name}-{seed}"
    if args.train:
        how: dict[str, Any] = {"recipe": "demo", "observe": "given", "epochs": 4}
        if args.features:
            how, options = {}, {**options, "features": args.features}
        result = aevlp.train(data, run, **common, **how, options=options, overwrite=True)
        rows.append({**about, "what": "thresholds", "test_mAP": result["mAP"], **threshold_figures(RunFolder(run), data, args)})
    label_options = {key: value for key, value in options.items() if key.startswith("damp.")}
    tried: list[tuple[str, dict[str, Any]]] = [("label", {})]
    if len(drawn.complete):
        tried.append((f"min-precision {PRECISION}", {"min_precision": PRECISION}))
    if args.train:
        tried += [(f"{name}, folds", {**values, "run": run, "folds": 3}) for name, values in tried]
    for number, (what, values) in enumerate(tried):
        out = args.out / "files" / f"{args.name}-{seed}-{number}.jsonl"
        for path in (out, out.with_name(f"{out.stem}-sample.csv")):
            path.unlink(missing_ok=True)
        if "run" not in values:
            values = {**common, "options": label_options, **values}
        done = aevlp.label(data, out, **values)
        rows.append({**about, "what": what, **claimed(done), **true_figures(done, drawn)})
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Run the sets and append their rows to `claims.jsonl`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--world", type=Path, required=True, help="a fully labelled image set")
    add("--name", required=True, help="name of these sets in the table")
    add("--teacher", required=True)
    add("--temperature", type=float, default=0.05)
    add("--features", help="a .npz of features; without it the demo's backbone is trained")
    add("--grid", type=int, default=2, help="tiles per side: few are faster, and claims must hold for any")
    add("--classes", type=int, default=20, help="most classes in a set")
    add("--train", action="store_true", help="also train, for thresholds and out-of-fold models")
    add("--first", type=int, default=0, help="seed of the first set")
    add("--sets", type=int, default=20)
    add("--store", default=None)
    add("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING)
    table = read(args.world, None)
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "claims.jsonl").open("a") as file:
        for seed in range(args.first, args.first + args.sets):
            for row in run_set(table, seed, args):
                file.write(json.dumps(row, default=float) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
