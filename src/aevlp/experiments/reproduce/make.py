"""From a request to its files: TARGET.md, TARGET.csv, TARGET.png."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aevlp.config.sweep import Failure, trials_of
from aevlp.core.errors import UserError
from aevlp.core.files import whole_file, write_text
from aevlp.core.processes import is_first_process
from aevlp.core.progress import duration
from aevlp.experiments.reproduce import paper
from aevlp.experiments.reproduce.place import check_place, claim_place, image_set
from aevlp.experiments.reproduce.plan import Planned, differences, plan, rows_of
from aevlp.experiments.reproduce.request import Request
from aevlp.experiments.reproduce.sheet import Sheet, csv_text, markdown_table, paper_column
from aevlp.store.location import store_root

if TYPE_CHECKING:
    from aevlp.data.dataset import Dataset


def make(request: Request) -> tuple[str, Sheet]:
    """(the text of TARGET.md, what it was made of), when the target's files are in their folder.

    What an earlier call has finished is taken as it is. Whatever can be refused is refused before anything is computed.
    """
    started = time.monotonic()
    check_place(request)
    planned = plan(request)
    trials = trials_of(request.recipe, rows_of(planned), request.seeds)
    if not trials:
        raise UserError(f"{request.target.name}: none of its rows can be trained ({planned[0].skipped})")
    config = trials[0].config

    from aevlp.data.dataset import require_examples
    from aevlp.data.load import load

    if request.data is None:
        claim_place(request)  # before the world is drawn into it
    path = image_set(request, config.engine)
    data = load(path, config.data, store_root(config.run.store))
    require_examples(data)
    column = paper_column(request, data.classes)
    sheet, trained = _sheet(request, planned, data, column)
    text = _text(request, planned, sheet, data, column, [*trained, f"this call took {duration(time.monotonic() - started)}"])
    if is_first_process():
        base = request.out / request.target.name
        write_text(base.with_suffix(".csv"), csv_text(sheet.values))
        with whole_file(base.with_suffix(".png")) as file:
            file.write(sheet.picture)
        write_text(base.with_suffix(".md"), text)
    return text, sheet


def _sheet(request: Request, planned: Sequence[Planned], data: Dataset, column: str | None) -> tuple[Sheet, list[str]]:
    """The target, computed; and how long its trainings took."""
    path = data.train.root if request.data is None else request.data
    if request.target.kind == "labels":
        from aevlp.experiments.reproduce.labels import label_sheet

        claim_place(request, data)
        return label_sheet(request, planned, data, column), []

    from aevlp.experiments.reproduce.distributions import distribution_sheet, require_test
    from aevlp.experiments.reproduce.scores import score_sheet, train_rows, training_seconds

    if request.target.kind == "distributions":
        require_test(data)
    scores = train_rows(request, planned, path, data)
    spent = [f"the epochs of all its trainings together {duration(training_seconds(request, scores))}"]
    if request.target.kind == "distributions":
        return distribution_sheet(request, scores, data), spent
    return score_sheet(request, scores, data, column), spent


def _text(
    request: Request, planned: Sequence[Planned], sheet: Sheet, data: Dataset, column: str | None, times: Sequence[str]
) -> str:
    """The page."""
    target = request.target
    set_name = paper.TITLES[column] if column else "the demo world" if request.data is None else f"`{request.data}`"
    parts = [f"# {target.title}, on {set_name}\n"]
    if request.quick:
        few = "epochs, draws and images" if request.data is None else "epochs and draws"
        parts.append(f"**Quick: few {few}, to see that it works. The figures mean nothing.**\n")
    parts.append(f"![{target.title}]({target.name}.png)\n")
    parts.append(markdown_table(sheet.headings, sheet.rows))
    seeds = f"Mean ± standard deviation over seeds 0 to {request.seeds - 1}" if request.seeds > 1 else "Seed 0"
    unit = "" if target.kind == "labels" else "; mAP in percent"
    failures = [f"{name} failed: {outcome.line}" for name, outcome in sheet.outcomes if isinstance(outcome, Failure)]
    parts += [f"{note}\n" for note in (f"{seeds}{unit}.", *sheet.notes, *failures)]
    parts.append("## What it was made with\n")
    parts.append("".join(f"- {line}\n" for line in [*_data(request, data), *(f"{name}: {text}" for name, text in sheet.made)]))
    parts.append(_compared(request, planned, data, column))
    parts.append("Made by\n\n    " + request.command + "\n")
    parts.append(f"on {platform.system()} {platform.machine()}, {os.cpu_count()} cores{_device()}; {'; '.join(times)}.\n")
    return "\n".join(parts)


def _data(request: Request, data: Dataset) -> list[str]:
    counts = {split.name: len(split.names) for split in (data.train, data.val, data.test) if split is not None}
    images = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    return [f"data: {images} images, {len(data.classes)} classes; recipe `{request.recipe}`"]


def _compared(request: Request, planned: Sequence[Planned], data: Dataset, column: str | None) -> str:
    """What has to be known before these figures are held against the paper's."""
    changed = differences(planned)
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
            protocol = request.said.get("protocol", "common")
            how = "the recipe's settings" if protocol == "common" else "the settings that it was published with"
            lines.append(
                f"Here every method is trained with {how} (`--protocol {protocol}`); the paper takes most from their authors."
            )
    if changed:
        lines += ["Not as in the recipe:", "", *(f"- {change}" for change in changed)]
    elif column is not None:
        lines.append("Every option is as in the recipe.")
    return "\n".join(lines) + "\n"


def _counts(column: str, data: Dataset) -> list[str]:
    """How many images there are and should be, where that differs."""
    from aevlp.data.benchmarks import BENCHMARKS

    expected = next(benchmark for benchmark in BENCHMARKS if benchmark.name == column)
    found = (len(data.train.names) + len(data.val.names), len(data.test.names) if data.test is not None else 0)
    wanted = (expected.train.images, expected.test.images)
    if found == wanted:
        return []
    return [
        f"{paper.TITLES[column]} has {wanted[0]:,} images for training and validation and {wanted[1]:,} for test; "
        f"here there are {found[0]:,} and {found[1]:,}."
    ]


def _device() -> str:
    """What else computes."""
    import torch

    return f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
