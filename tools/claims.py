"""Coverage: do the figures that aevlp prints about itself hold on image sets like a user's?

    python -m tools.claims run --world demo-run/world --name demo --teacher demo --sets 30 --out claims
    python -m tools.claims run --world voc2012-224 --name voc --teacher lit:teacher --features resnet50.npz --train --out claims
    python -m tools.claims table claims/claims.jsonl

`run` draws image sets from a fully labelled one: 8 to 20 classes, 200 to 2,000 images with one label each, with or without 50 to
200 fully labelled images. On each it runs `aevlp.label` and, if asked, `aevlp.train`, compares what they claim with the labels
that were hidden, and writes a line for each claim to `claims.jsonl`. `table` sums up such files.
"""

import argparse
import csv
import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

import aevlp
from aevlp.config.run_options import ThresholdOptions
from aevlp.core.processes import EngineOptions
from aevlp.core.seeds import seed_for
from aevlp.data.dataset import ImageTable
from aevlp.data.load import DataOptions
from aevlp.data.readers import read
from aevlp.inference.completion.claims import ExpectedClaim, MeasuredClaim
from aevlp.inference.completion.result import Completion
from aevlp.inference.evaluation import evaluate_run
from aevlp.training.evaluate import label_metrics
from aevlp.training.intervals import Interval
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import read_thresholds, thresholds_for

CLASSES, IMAGES, COMPLETE = (8, 20), (200, 2000), (50, 200)
TESTED = 1000  # images that thresholds are judged on
PRECISION, MAX_LOST = 0.9, 0.05
Row = dict[str, Any]


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


def draw_set(table: ImageTable, seed: int, most_classes: int, complete_images: tuple[int, int] = COMPLETE) -> UserSet:
    """Draw a set. Every other one has fully labelled images; every third one was collected class by class."""
    rng = np.random.default_rng(seed_for(seed, "claims"))
    count = int(rng.integers(CLASSES[0], min(CLASSES[1], most_classes) + 1))
    columns = np.sort(rng.choice(len(table.classes), count, replace=False))
    labels = table.labels[:, columns] == 1
    pool = rng.permutation(np.flatnonzero(labels.any(1)))
    complete = int(rng.integers(*complete_images)) if seed % 2 == 0 else 0
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
    """Return the true precision and recall of the new labels of training images, and of the labels proposed to be absent."""
    classes = np.array([drawn.table.classes[c] for c in drawn.columns])
    truth = {PurePath(drawn.table.names[row]).name: set(classes[own]) for row, own in zip(drawn.train, drawn.truth, strict=True)}
    hits = new = hidden = absent = wrong = cells = 0
    for record in done:
        if record.split == "train":
            to_find = truth[PurePath(record.name).name] - set(record.observed)
            hidden, new, hits = hidden + len(to_find), new + len(record.proposed), hits + len(to_find & set(record.proposed))
            cells += len(classes) - len(record.observed)
            absent, wrong = absent + len(record.proposed_absent), wrong + len(to_find & set(record.proposed_absent))
    return {
        **{"new": new, "precision": hits / new if new else np.nan, "recall": hits / hidden if hidden else np.nan},
        **{"absent": absent, "absent_precision": 1 - wrong / absent if absent else np.nan},
        **{"lost": wrong / hidden if hidden else np.nan, "absent_share": absent / max(cells - hidden, 1)},
    }


def claimed(done: Completion) -> dict[str, Any]:
    """Return the claims about the new labels and about the absences."""
    absences = done.absences
    about_absences: dict[str, Any] = {}
    if absences is not None and absences.precision is not None and isinstance(absences.lost, Interval):
        about_absences = {"absent_low": absences.precision.low, "absent_high": absences.precision.high}
        about_absences |= {"lost_low": absences.lost.low, "lost_high": absences.lost.high}
    elif absences is not None:
        about_absences = {"lost_claimed": absences.lost}
    match done.claim:
        case MeasuredClaim(_, precision, recall):
            return {
                **{"basis": "measured", "claimed": precision.value, "low": precision.low, "high": precision.high},
                **{"recall_low": recall.low, "recall_high": recall.high, **about_absences},
            }
        case ExpectedClaim(precision=value, low=low, high=high):
            return {"basis": "unverified", "claimed": value, "low": low, "high": high, **about_absences}
        case reason:
            return {"basis": str(reason).partition(":")[0], **about_absences}


def threshold_figures(run: RunFolder, data: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Return the macro F1 on test images at 0.5, at one threshold for all classes, and at a threshold per class.

    Where precision can be measured, also return that of thresholds which aim at it: as measured, and as it is on test images.
    """
    how: dict[str, Any] = {"features": args.features, "workers": 2, "store": args.store}
    val, test = (
        evaluate_run(run, data, split, options=DataOptions(), engine=EngineOptions(), **how) for split in ("val", "test")
    )
    thresholds = read_thresholds(run.thresholds, test.classes)
    given = {"half": test.found >= 0.5, "common": test.found >= thresholds.overall, "per_class": thresholds.above(test.found)}
    positive = test.split.evaluation_labels == 1
    figures = {"basis": thresholds.basis, **{name: label_metrics(each, positive).macro_F1 for name, each in given.items()}}
    if val.split.truth is not None:
        aimed = thresholds_for(val.split, val.classes, val.found, ThresholdOptions(aim="precision", precision=PRECISION), None)
        assert aimed.measured_precision is not None
        figures |= {"low": aimed.measured_precision.low, "high": aimed.measured_precision.high}
        figures |= {"precision": label_metrics(aimed.above(test.found), positive).precision / 100}
    return figures


def run_set(table: ImageTable, seed: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Train and label on one set; return a row for each claim."""
    drawn = draw_set(table, seed, args.classes, tuple(args.complete))
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
        result = aevlp.train(data, run, method=args.method, **common, **how, options=options, overwrite=True)
        rows.append({**about, "what": "thresholds", "test_mAP": result["mAP"], **threshold_figures(RunFolder(run), data, args)})
    label_options = {key: value for key, value in options.items() if key.startswith("damp.")}
    tried: list[tuple[str, dict[str, Any]]] = [("label", {})]
    if len(drawn.complete):
        tried.append((f"min-precision {PRECISION}", {"min_precision": PRECISION}))
    if args.train:
        tried += [(f"{name}, folds", {**values, "run": run, "folds": 3}) for name, values in tried]
    for number, (what, values) in enumerate(tried):
        out = args.out / "files" / f"{args.name}-{seed}-{number}.jsonl"
        out.unlink(missing_ok=True)
        if "run" not in values:
            values = {**common, "options": label_options, **values}
        done = aevlp.label(data, out, **values)
        rows.append({**about, "what": what, **claimed(done), **true_figures(done, drawn)})
    return rows


def inside(rows: Sequence[Row], figure: str, low: str, high: str) -> str:
    """Return in how many rows the true figure lies inside its interval."""
    known = [row for row in rows if low in row and row[figure] is not None and not np.isnan(row[figure])]
    return f"{sum(row[low] <= row[figure] <= row[high] for row in known)} of {len(known)}"


def claims_line(name: str, rows: Sequence[Row]) -> str:
    """Return a line of the table of claims."""
    measured = [row for row in rows if row["basis"] == "measured"]
    asked = [row for row in rows if row["what"].startswith("min-precision")]
    proposed = [row for row in asked if row["new"]]
    kept = sum(row["precision"] >= PRECISION for row in proposed)
    sets, width = len({(row["set"], row["seed"]) for row in rows}), [row["high"] - row["low"] for row in measured]
    absences = [row for row in rows if "absent_low" in row and not row["what"].startswith("min-precision")]
    cells = (
        *(name, sets, inside(measured, "precision", "low", "high"), inside(measured, "recall", "recall_low", "recall_high")),
        *(f"{np.mean(width):.2f}" if width else "-", f"{len(asked)}, {len(proposed)}, {kept}"),
        f"{inside(absences, 'absent_precision', 'absent_low', 'absent_high')}",
        inside(absences, "lost", "lost_low", "lost_high"),
        *absence_cells(absences),
    )
    return f"| {' | '.join(map(str, cells))} |"


def absence_cells(rows: Sequence[Row]) -> tuple[str, str, str]:
    """Return the share of the absent labels that is proposed, the share of the hidden ones that is lost, how often it is small.

    Sets without any proposed absence do not count.
    """
    some = [row for row in rows if row["absent"]]
    if not some:
        return "-", "-", "0 of 0"
    found, lost = (100 * np.mean([row[key] for row in some]) for key in ("absent_share", "lost"))
    return f"{found:.0f} %", f"{lost:.1f} %", f"{sum(row['lost'] <= MAX_LOST for row in some)} of {len(some)}"


def unverified_line(name: str, rows: Sequence[Row]) -> str:
    """Return a line of the table of claims without complete labels."""
    claims = [row for row in rows if row["basis"] == "unverified"]
    mean = {key: f"{np.mean([row[key] for row in claims]):.2f}" if claims else "-" for key in ("claimed", "precision")}
    cells = (
        *(name, len(rows), len(claims), mean["claimed"], mean["precision"], inside(claims, "precision", "low", "high")),
        *absence_cells(rows),
    )
    return f"| {' | '.join(map(str, cells))} |"


def thresholds_line(name: str, rows: Sequence[Row]) -> str:
    """Return a line of the table of thresholds."""
    figures = {key: [row[key] for row in rows] for key in ("half", "common", "per_class")}
    best = np.mean([row["per_class"] >= max(row["half"], row["common"]) for row in rows])
    gain = np.array(figures["per_class"]) - np.array(figures["half"])
    aimed = inside(rows, "precision", "low", "high") if "low" in rows[0] else "-"
    cells = (
        *(name, len(rows), *(f"{np.mean(values):.1f}" for values in figures.values())),
        *(f"{gain.mean():+.1f} ± {1.96 * gain.std() / max(len(gain), 1) ** 0.5:.1f}", f"{100 * best:.0f} %", aimed),
    )
    return f"| {' | '.join(map(str, cells))} |"


def table(files: Sequence[Path]) -> str:
    """Return the tables, in Markdown, of the rows in these files."""
    rows: list[Row] = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    names = sorted({row["set"] for row in rows})

    def lines(make: Callable[[str, Sequence[Row]], str], chosen: Sequence[Row]) -> list[str]:
        groups = [(name, [row for row in chosen if row["set"] == name]) for name in names] + [("all", list(chosen))]
        return [make(name, group) for name, group in groups if group]

    labels = [row for row in rows if row["what"] != "thresholds"]
    fitted = [row for row in rows if row["what"] == "thresholds"]
    found = [
        "precision, recall and absences with fully labelled images",
        *lines(claims_line, [r for r in labels if r["complete"]]),
    ]
    found += ["without fully labelled images", *lines(unverified_line, [r for r in labels if not r["complete"]])]
    for basis in ("estimated", "complete"):
        found += [f"thresholds, {basis}", *lines(thresholds_line, [row for row in fitted if row["basis"] == basis])]
    return "\n".join(found)


def main(argv: Sequence[str] | None = None) -> None:
    """Run sets and append their rows to `claims.jsonl`, or print the tables of such files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table").add_argument("files", type=Path, nargs="+")
    add = commands.add_parser("run").add_argument
    add("--world", type=Path, required=True, help="a fully labelled image set")
    add("--name", required=True, help="name of these sets in the table")
    add("--teacher", required=True)
    add("--temperature", type=float, default=0.05)
    add("--features", help="a .npz of features; without it the demo's backbone is trained")
    add("--grid", type=int, default=2, help="tiles per side: few are faster, and claims must hold for any")
    add("--classes", type=int, default=20, help="most classes in a set")
    add("--complete", type=int, nargs=2, default=COMPLETE, metavar=("LEAST", "MOST"), help="fully labelled images of a set")
    add("--step", type=int, default=1, help="difference between the seeds of two sets: 2 leaves out those without such images")
    add("--train", action="store_true", help="also train, for thresholds and out-of-fold models")
    add("--method", default="aevlp", help="method to train")
    add("--first", type=int, default=0, help="seed of the first set")
    add("--sets", type=int, default=20)
    add("--store", default=None)
    add("--out", type=Path, required=True)
    args = parser.parse_args(argv)
    if args.command == "table":
        print(table(args.files))
        return
    logging.basicConfig(level=logging.WARNING)
    images = read(args.world, None)
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "claims.jsonl").open("a") as file:
        for seed in range(args.first, args.first + args.step * args.sets, args.step):
            for row in run_set(images, seed, args):
                file.write(json.dumps(row, default=float) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
