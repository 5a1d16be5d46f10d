"""What `aevlp reproduce` has written, and a set with the classes of a benchmark to write it about."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image

from aevlp.data.benchmarks import VOC
from tests.colours import write_world


def table_of(file: Path) -> list[dict[str, str]]:
    """The rows of a Markdown table by heading."""
    lines = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in file.read_text().splitlines() if line[:1] == "|"
    ]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def started(err: str) -> list[str]:
    return [line.removeprefix("started ") for line in err.splitlines() if line.startswith("started ")]


def check_picture(file: Path) -> None:
    """It can be read, and shows something."""
    with Image.open(file) as picture:
        assert picture.format == "PNG"
        assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 20


def write_benchmark(folder: Path) -> Path:
    """A set with the classes of VOC, of which the teacher knows nothing but what it sees in the colours."""
    write_world(folder, train=80, test=0)
    names = list(VOC.classes)
    rng = np.random.default_rng(0)
    rows = ["image,labels,split"]
    for number, split in enumerate(["train"] * 60 + ["val"] * 10 + ["test"] * 10):
        chosen = {number % 20, *(rng.integers(0, 20, 2).tolist() if number >= 20 else [])}  # every class is observed
        rows.append(f"images/{number:03d}.png,{';'.join(names[c] for c in sorted(chosen))},{split}")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    (folder / "classes.txt").write_text("\n".join(names) + "\n")
    return folder
