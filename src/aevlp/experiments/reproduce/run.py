"""Reproduce a target: from the request to TARGET.md, TARGET.csv and TARGET.png in its folder."""

import csv
import io
import os
import platform
import time
from collections.abc import Collection, Sequence

import torch

from aevlp.config.sweep import Failure, Trial, trials_of
from aevlp.core.errors import UserError
from aevlp.core.files import json_object, whole_file, write_json, write_text
from aevlp.core.processes import is_first_process
from aevlp.core.progress import duration
from aevlp.core.tables import markdown_table
from aevlp.data.benchmarks import BENCHMARKS
from aevlp.data.dataset import Dataset, data_fingerprint, require_examples
from aevlp.data.load import load
from aevlp.experiments.compare import train_all
from aevlp.experiments.demo.run import ensure_world
from aevlp.experiments.reproduce import paper
from aevlp.experiments.reproduce.label_quality import label_sheet
from aevlp.experiments.reproduce.plan import PlannedRow, differences, plan, trainings_of
from aevlp.experiments.reproduce.sheets import Sheet, distribution_sheet, map_sheet, require_test, trained_rows, training_seconds
from aevlp.experiments.reproduce.targets import ReproduceRequest
from aevlp.store.location import store_root
from aevlp.training.provenance import require_same_images

MARK = "reproduce.json"
QUICK_WORLD = {"train": 400, "test": 200}  # images; the whole one has 2,000 and 1,000


def run_target(request: ReproduceRequest) -> tuple[str, Sheet]:
    """Make a target, write its files and return (the text of TARGET.md, its table).

    Finished runs of an earlier call are kept. Mistakes are refused before anything is computed.
    """
    started = time.monotonic()
    check_folder(request)
    planned = plan(request)
    trials = trials_of(request.recipe, trainings_of(planned), request.seeds)
    if not trials:
        raise UserError(f"{request.target.name}: none of its rows can be trained ({planned[0].skipped})")
    config = trials[0].config
    config.model.require_features()
    if request.data is None:
        mark_folder(request)  # before the world is drawn into it
        ensure_world(request.image_set, config.engine, **(QUICK_WORLD if request.quick else {}))
    data = load(request.image_set, config.data, store_root(config.run.store))
    asks_teacher = all(trial.config.method.source.asks_teacher for trial in trials)
    require_examples(data, config.data.classes_without_examples, asks_teacher=asks_teacher)
    column = paper_column(request, data.classes)
    sheet, times = _sheet(request, planned, trials, data, column)
    times.append(f"this call took {duration(time.monotonic() - started)}")
    text = page_text(request, sheet, data, column, differences(planned), times)
    if is_first_process():
        write_files(request, sheet, text)
    return text, sheet


def _sheet(
    request: ReproduceRequest, planned: Sequence[PlannedRow], trials: Sequence[Trial], data: Dataset, column: str | None
) -> tuple[Sheet, list[str]]:
    """Compute the target; return its table and a remark on the time of its trainings."""
    if request.target.kind == "labels":
        mark_folder(request, data)
        return label_sheet(request, trials, data, column), []
    if request.target.kind == "distributions":
        require_test(data)
    outcomes = train_all(
        trials, request.image_set, request.runs, jobs=request.jobs, on_progress=lambda _: mark_folder(request, data)
    )
    rows = trained_rows(planned, outcomes)
    times = [f"the epochs of all its trainings together {duration(training_seconds(request, rows))}"]
    if request.target.kind == "distributions":
        return distribution_sheet(request, rows, data), times
    return map_sheet(request, rows, data, column), times


def check_folder(request: ReproduceRequest) -> None:
    """Refuse a folder that holds something else, or figures of the other kind (quick or not)."""
    out = request.out
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"--out {out}: exists and is not a folder; choose another place")
    if (out / MARK).is_file():
        try:
            was_quick = bool(json_object(out / MARK)["quick"])
        except (ValueError, KeyError, TypeError):
            raise UserError(f"--out {out}: {MARK} in it is not one of aevlp reproduce; choose another place") from None
        if was_quick != request.quick:
            here, now = ("with --quick", "without") if was_quick else ("without --quick", "with it")
            raise UserError(f"--out {out}: what is in it was made {here}, and cannot go on {now}; choose another place")
        return
    store = store_root(request.options.get("store"))
    content = [path for path in out.iterdir() if not path.name.startswith(".") and (store is None or path != store)]
    if content:
        raise UserError(
            f"--out {out}: exists and was not made by aevlp reproduce ({content[0].name} is in it); choose another place"
        )


def mark_folder(request: ReproduceRequest, data: Dataset | None = None) -> None:
    """Mark the folder as one of `aevlp reproduce`, of that image set; refuse a folder of another image set."""
    file = request.out / MARK
    known = json_object(file) if file.is_file() else {}
    mark = {"made_by": "aevlp reproduce", "quick": request.quick, **known}
    if data is not None:
        if "fingerprint" in known:
            require_same_images(request.out, known, data)
        mark |= {"data": str(data.place.resolve()), "fingerprint": data_fingerprint(data)}
    if is_first_process() and mark != known:
        write_json(file, mark)


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
    parts.append(markdown_table(sheet.headings, sheet.rows))
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
