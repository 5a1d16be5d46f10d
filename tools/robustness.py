"""Image sets with fewer, more and wrong tags, drawn from a fully labelled one, and a picture of what methods make of them.

    python -m tools.robustness draw VOC --out sets                  sets/0, sets/1, sets/2, sets/all, sets/wrong
    aevlp compare sets/2 --observe given --methods ... --out runs/2-lit       (for each set; any number of folders for each)
    python -m tools.robustness plot runs/* --out docs/robustness.png          the mean test mAP of each method and set

A set has the same images for training, validation (a fifth, fully labelled) and test, whatever their tags: none, one, two or all
of an image's labels; in `wrong`, one, which is that of a class that the image does not have for 30 % of the images.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from aevlp.data.dataset import ImageTable
from aevlp.data.readers import read

KINDS = {"0": "none", "1": "one", "2": "two", "all": "all", "wrong": "one,\n30 % wrong"}
WRONG = 0.3
SEED = 4242


def main(argv: Sequence[str] | None = None) -> None:
    """Draw the sets, or plot the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    draw = commands.add_parser("draw")
    draw.add_argument("data", type=Path)
    draw.add_argument("--out", type=Path, required=True)
    plot = commands.add_parser("plot")
    plot.add_argument("runs", type=Path, nargs="+")
    plot.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(argv)
    if given.command == "draw":
        draw_sets(read(given.data, None), given.out)
    else:
        draw_curves(collected(given.runs)).savefig(given.out, dpi=110)


def draw_sets(table: ImageTable, out: Path) -> None:
    """Write a table of images, tags and splits for each of `KINDS` below `out`; all have the same images in the same order."""
    rng = np.random.default_rng(SEED)
    splits, positive = np.array(table.splits), table.labels == 1
    train = rng.permutation(np.flatnonzero(splits == "train"))
    val, train = np.split(train, [len(train) // 5])
    order = [rng.permutation(np.flatnonzero(positive[row])) for row in train]
    absent = [rng.choice(np.flatnonzero(~positive[row])) if rng.random() < WRONG else None for row in train]
    for kind in KINDS:
        folder = out / kind
        folder.mkdir(parents=True)
        (folder / "classes.txt").write_text("".join(f"{name}\n" for name in table.classes))
        with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(["image", "labels", "split"])
            tags = [_tags(kind, own, other) for own, other in zip(order, absent, strict=True)]
            rest = [(row, np.flatnonzero(positive[row]), split) for split, rows in _rest(val, splits) for row in rows]
            for row, labels, split in [*((row, own, "train") for row, own in zip(train, tags, strict=True)), *rest]:
                name = os.path.relpath(table.root / table.names[row], folder)
                lines.writerow([name, ";".join(table.classes[column] for column in labels), split])


def _rest(val: np.ndarray, splits: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield "val", val
    yield "test", np.flatnonzero(splits == "test")


def _tags(kind: str, own: np.ndarray, absent: int | None) -> Sequence[int]:
    """Return the tags of an image whose labels are `own`, in the order in which they are observed."""
    if kind == "wrong":
        return [absent] if absent is not None else own[:1].tolist()
    return [int(column) for column in own[: len(own) if kind == "all" else int(kind)]]


def collected(folders: Sequence[Path]) -> dict[str, dict[str, list[float]]]:
    """Return method -> kind -> test mAP of each seed, from folders of `aevlp compare` that are called KIND-ANYTHING."""
    found: dict[str, dict[str, list[float]]] = {}
    for folder in folders:
        for file in sorted(folder.rglob("results.csv")):
            for row in csv.DictReader(file.open(newline="")):
                found.setdefault(row["method"], {}).setdefault(folder.name.partition("-")[0], []).append(float(row["mAP"]))
    return found


def draw_curves(found: dict[str, dict[str, list[float]]]) -> Figure:
    """Show the mean of each method over the kinds of tags."""
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    for method, kinds in sorted(found.items(), key=lambda item: item[0] != "consensus"):
        places = [place for place, kind in enumerate(KINDS) if kind in kinds]
        means = [float(np.mean(kinds[list(KINDS)[place]])) for place in places]
        joined = [place for place in places if place < len(KINDS) - 1]  # wrong tags are a question of their own
        line = axes.plot(joined, means[: len(joined)], "o-", label=method, linewidth=2.5 if method == "consensus" else 1.2)
        if len(joined) < len(places):
            axes.plot(places[-1:], means[-1:], "o", color=line[0].get_color())
    axes.set_xticks(range(len(KINDS)), list(KINDS.values()))
    axes.set_xlabel("observed labels of each training image")
    axes.set_ylabel("test mAP")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return figure


if __name__ == "__main__":
    main()
