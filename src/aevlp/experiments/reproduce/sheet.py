"""What a target comes to: the cells of its table, remarks, values for the CSV, a picture."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aevlp.experiments.reproduce.request import Request

NOTHING = "-"


@dataclass(frozen=True)
class Sheet:
    """A table, ready to be written."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    values: Sequence[dict[str, Any]]  # of the CSV, all with the same keys
    picture: bytes  # a PNG
    outcomes: Sequence[tuple[str, object]]  # by name; one that failed is a Failure
    made: Sequence[tuple[str, str]] = field(default_factory=list)  # of what, with what, how long: (name, text)


def paper_column(request: Request, classes: Collection[str]) -> str | None:
    """The recipe's name, where the data set is the one of the paper that it stands for, by the names of its classes."""
    from aevlp.data.benchmarks import BENCHMARKS

    known = next((benchmark for benchmark in BENCHMARKS if benchmark.name == request.recipe), None)
    return request.recipe if known is not None and set(known.classes) == set(classes) else None


def mean_and_spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean and, over several values, standard deviation."""
    if not values:
        return NOTHING
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{spread}"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def csv_text(values: Sequence[dict[str, Any]]) -> str:
    """The values with a row of their names above; empty: there is none."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(values[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(values)
    return text.getvalue()
