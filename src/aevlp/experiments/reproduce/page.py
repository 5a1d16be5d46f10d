"""The files of a target: its page in Markdown, its values in CSV, its chart."""

import csv
import io
import os
import platform
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from aevlp.config.sweep import Failure
from aevlp.core.files import whole_file, write_text
from aevlp.data.benchmarks import BENCHMARKS
from aevlp.data.dataset import Dataset
from aevlp.experiments.reproduce import paper
from aevlp.experiments.reproduce.targets import ReproduceRequest


@dataclass(frozen=True)
class Sheet:
    """A table, ready to be written."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    values: Sequence[dict[str, Any]]  # of the CSV, all with the same keys; not empty
    chart: bytes  # a PNG
    outcomes: Sequence[tuple[str, object]]  # by name; one that failed is a Failure
    made_with: Sequence[tuple[str, str]]  # (name, text): backbone, teacher, versions


def paper_column(request: ReproduceRequest, classes: Collection[str]) -> str | None:
    """Return the recipe's name if the data set is the one of the paper that the recipe is for, by the names of its classes."""
    known = next((benchmark for benchmark in BENCHMARKS if benchmark.name == request.recipe), None)
    return request.recipe if known is not None and set(known.classes) == set(classes) else None


def write_files(request: ReproduceRequest, sheet: Sheet, text: str) -> None:
    """Write TARGET.csv, TARGET.png and TARGET.md."""
    base = request.out / request.target.name
    values = io.StringIO()
    writer = csv.DictWriter(values, list(sheet.values[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(sheet.values)
    write_text(base.with_suffix(".csv"), values.getvalue())
    with whole_file(base.with_suffix(".png")) as file:
        file.write(sheet.chart)
    write_text(base.with_suffix(".md"), text)


def page_text(
    request: ReproduceRequest, sheet: Sheet, data: Dataset, column: str | None, changes: Sequence[str], times: Sequence[str]
) -> str:
    """Return the page in Markdown.

    `column`: the paper's data set that `data` is; `changes`: options that are not as in the recipe; `times`: remarks on the time.
    """
    target = request.target
    set_name = paper.TITLES[column] if column else "the demo world" if request.data is None else f"`{request.data}`"
    parts = [f"# {target.title}, on {set_name}\n"]
    if request.quick:
        few = "epochs, draws and images" if request.data is None else "epochs and draws"
        parts.append(f"**Quick: few {few}, to see that it works. The figures mean nothing.**\n")
    parts.append(f"![{target.title}]({target.name}.png)\n")
    parts.append(_markdown_table(sheet.headings, sheet.rows))
    seeds = f"Mean ± standard deviation over seeds 0 to {request.seeds - 1}" if request.seeds > 1 else "Seed 0"
    unit = "" if target.kind == "labels" else "; mAP in percent"
    failures = [f"{name} failed: {outcome.line}" for name, outcome in sheet.outcomes if isinstance(outcome, Failure)]
    parts += [f"{note}\n" for note in (f"{seeds}{unit}.", *sheet.notes, *failures)]
    counts = {split.name: len(split.names) for split in (data.train, data.val, data.test) if split is not None}
    images = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    made_with = [("data", f"{images} images, {len(data.classes)} classes; recipe `{request.recipe}`"), *sheet.made_with]
    parts.append("## What it was made with\n")
    parts.append("".join(f"- {name}: {text}\n" for name, text in made_with))
    parts.append(_comparability(request, data, column, changes))
    parts.append("Made by\n\n    " + request.command + "\n")
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    parts.append(f"on {platform.system()} {platform.machine()}, {os.cpu_count()} cores{gpu}; {'; '.join(times)}.\n")
    return "\n".join(parts)


def _markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _comparability(request: ReproduceRequest, data: Dataset, column: str | None, changes: Sequence[str]) -> str:
    """Return all that a reader must know before comparing these figures with the paper's."""
    if column is None:
        about = "The data set is none of the paper's, so that its figures are not shown"
        lines = [f"{about}; its ranks are those of its own data sets." if request.target.is_ranked else f"{about}."]
    else:
        lines = [
            f"The paper's figures: {paper.SETTING}.",
            "The recipe has the paper's constants, but prompts of its own (the paper's: `--prompts none`) and other weights "
            "of the backbone.",
            *_counts(column, data),
        ]
        if request.target.is_ranked:
            protocol = request.options.get("protocol", "common")
            how = "the recipe's settings" if protocol == "common" else "the settings that it was published with"
            lines.append(
                f"Here every method is trained with {how} (`--protocol {protocol}`); the paper takes most from their authors."
            )
    if changes:
        lines += ["Not as in the recipe:", "", *(f"- {change}" for change in changes)]
    elif column is not None:
        lines.append("Every option is as in the recipe.")
    return "\n".join(lines) + "\n"


def _counts(column: str, data: Dataset) -> list[str]:
    """Return a line with the numbers of images if they are not those of the benchmark."""
    expected = next(benchmark for benchmark in BENCHMARKS if benchmark.name == column)
    found = (len(data.train.names) + len(data.val.names), len(data.test.names) if data.test is not None else 0)
    wanted = (expected.train.images, expected.test.images)
    if found == wanted:
        return []
    return [
        f"{paper.TITLES[column]} has {wanted[0]:,} images for training and validation and {wanted[1]:,} for test; "
        f"here there are {found[0]:,} and {found[1]:,}."
    ]
