"""A sweep: its trainings and their names, and the table and the CSV of their results."""

import csv
import io
import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from aevlp.config.config import Config
from aevlp.config.defaults import config_from, settings
from aevlp.config.methods import find_method
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.config.run_options import options_for
from aevlp.core.options import show_value
from aevlp.core.paired import FEWEST, SeedValues, no_claim, paired_difference

FIGURES = {
    "precision": "pseudo-labels: precision",
    "recall": "recall",
    "accumulated_precision": "accumulated precision",
    "accumulated_recall": "accumulated recall",
}
"""Figures of pseudo-labels, and their headings in a table."""
MEASURED = ("mAP", "mAP_present", "val_mAP", "best_epoch", "epochs")
VALUES = (*MEASURED, *(f"pseudo_{figure}" for figure in FIGURES), "images_per_second")
COLUMNS = ("seed", *VALUES, "run")
"""Columns of the CSV after the method and the varied options, one of which may be `precision`."""
NOTHING = "-"  # a cell without a value
MOST_TIES = 5  # that a sentence names
LONGEST = 200  # characters of a name; file systems take 255 bytes


@dataclass(frozen=True)
class Failure:
    """A training that failed: its last message, and whether the user can fix the cause."""

    line: str
    is_user_error: bool


Outcome = dict[str, Any] | Failure
"""The content of `result.json`, or the failure in place of it."""


@dataclass(frozen=True)
class SweepRow:
    """A method with one combination of options, trained with every seed."""

    method: str
    options: Mapping[str, Any]  # given by the user, among those that the method has
    varied: Mapping[str, Any]  # the options among them that tell this row from others

    @property
    def label(self) -> str:
        """The name of the row; no other row of a sweep has it."""
        return row_label(self.method, self.varied)


@dataclass(frozen=True)
class Trial(SweepRow):
    """One training of a sweep: a row with one seed."""

    seed: int
    config: Config

    @property
    def name(self) -> str:
        """The name of its run folder."""
        return f"{self.label}-{self.seed}"


@dataclass(frozen=True)
class Sweep:
    """The methods to train, and the values of each option that the user gave."""

    recipe: str
    methods: Sequence[str]
    choices: Mapping[str, Sequence[Any]]

    @property
    def varied(self) -> list[str]:
        """The options with several values."""
        return [key for key, values in self.choices.items() if len(values) > 1]

    @property
    def rows(self) -> list[SweepRow]:
        """Every method with every combination of the values.

        An option that a method does not have is not set for it, so that the method is trained once and not once per value.
        """
        rows: dict[str, SweepRow] = {}
        for method in dict.fromkeys(self.methods):
            for combination in product(*self.choices.values()):
                options = options_of_method(method, dict(zip(self.choices, combination, strict=True)))
                row = SweepRow(method, options, {key: options[key] for key in self.varied if key in options})
                rows[row.label] = row
        return list(rows.values())

    def trials(self, seeds: int) -> list[Trial]:
        """Return every training: all rows with seed 0, then with seed 1, ...; a wrong value is a UserError."""
        return trials_of(self.recipe, self.rows, seeds)


def trials_of(recipe: str, rows: Iterable[SweepRow], seeds: int) -> list[Trial]:
    """Return the trainings of rows: all rows with seed 0, then with seed 1, ...; a wrong value is a UserError."""
    values, rows = read_recipe(recipe_file(recipe)), list(rows)
    return [
        Trial(row.method, row.options, row.varied, seed, config_of(recipe, values, row.method, {**row.options, "seed": seed}))
        for seed in range(seeds)
        for row in rows
    ]


def options_of_method(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options among the given ones that a method has."""
    keys = {option.key for option in options_for(find_method(method))}
    return {key: value for key, value in options.items() if key in keys}


def config_of(recipe: str, values: Mapping[str, Any], method: str, options: Mapping[str, Any]) -> Config:
    """Return the configuration of a method: the given options over the values of the recipe."""
    defaults = settings(values, method, options.get("protocol", values.get("protocol", "common")), options)
    return config_from(recipe_file(recipe), recipe, method, defaults, options)


def exact(value: Any) -> str:
    """Return a value as the user would type it, to the last digit."""
    short = show_value(value)
    return repr(value) if isinstance(value, float) and float(short) != value else short


def row_label(method: str, varied: Mapping[str, Any]) -> str:
    """Return METHOD[-KEY=VALUE...] as a file name that no other combination of options has."""
    texts = {key: exact(value) for key, value in varied.items()}
    words = "-".join([method, *(f"{key}={text}" for key, text in texts.items())])
    name = re.sub(r"[^\w.=+-]", "_", words, flags=re.ASCII)
    # A digest keeps names apart that are too long, have an = in a value, or letters that a file name cannot hold or tell apart.
    if len(name) > LONGEST or not all(re.fullmatch(r"[a-z0-9._+-]+", text) for text in texts.values()):
        digest = blake2b(json.dumps([method, texts]).encode(), digest_size=4).hexdigest()
        name = f"{name[:LONGEST]}~{digest}"
    return name


def csv_text(sweep: Sweep, results: Iterable[tuple[Trial, Mapping[str, Any]]], out: Path) -> str:
    """Return a CSV with a row per finished run: mAP in percent, pseudo-label figures from 0 to 1.

    An empty cell is a figure that is not known, or an option that the method does not have.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", *sweep.varied, *COLUMNS])
    for trial, result in results:
        setting = [exact(trial.varied[key]) if key in trial.varied else "" for key in sweep.varied]
        writer.writerow([trial.method, *setting, trial.seed, *values_of(result), out / trial.name])
    return text.getvalue()


def values_of(result: Mapping[str, Any]) -> list[Any]:
    """Return the values of a result in the order of `VALUES`."""
    pseudo = [result["pseudo_labels"][figure] for figure in FIGURES]
    return [*(result[key] for key in MEASURED), *pseudo, result["images_per_second"]]


def is_results_csv(path: Path) -> bool:
    """Return whether a file is the CSV of a sweep."""
    with path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline().rstrip("\n").split(",")
    return header[0] == "method" and tuple(header[-len(COLUMNS) :]) == COLUMNS


def results_table(sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]], *, title: str, caption: str) -> Table:
    """Return a table with a row per method and combination of options: mean and standard deviation over the seeds."""
    results = [outcome for _, outcome in outcomes if not isinstance(outcome, Failure)]
    present = any(result["mAP"] != result["mAP_present"] for result in results)
    if any(result["val_labels"] != "complete" for result in results):
        caption = f"val mAP is of observed labels: a lower bound\n{caption}"
    table = Table(title=escape(title), caption=escape(caption))
    for name in ("method", *sweep.varied):
        table.add_column(name)
    maps = ["test mAP", *(["of classes with a positive"] if present else []), "val mAP"]
    # Without true labels of training images, no run has figures of pseudo-labels.
    figures = FIGURES if any(result["pseudo_labels"][key] is not None for result in results for key in FIGURES) else {}
    for name in (*maps, *figures.values()):
        table.add_column(name, justify="right")
    for row in dict.fromkeys(trial.label for trial, _ in outcomes):
        trial = next(trial for trial, _ in outcomes if trial.label == row)
        ours = [outcome for trial, outcome in outcomes if trial.label == row]
        done = [outcome for outcome in ours if not isinstance(outcome, Failure)]
        setting = [escape(exact(trial.varied[key])) if key in trial.varied else NOTHING for key in sweep.varied]
        keys = ["mAP", *(["mAP_present"] if present else []), "val_mAP"]
        cells = [mean_and_spread([result[key] for result in done]) for key in keys]
        if failed := len(ours) - len(done):
            cells[0] = f"{cells[0]} ({failed} failed)" if done else "failed"
        for figure in figures:
            values = [result["pseudo_labels"][figure] for result in done]
            cells.append(mean_and_spread([None if value is None else 100 * value for value in values]))
        table.add_row(trial.method, *setting, *cells)
    return table


def mean_and_spread(values: Iterable[float | None], digits: int = 2) -> str:
    """Return the mean of the known values and, of several, their standard deviation; '-' without any."""
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    spread = f" ± {statistics.stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.{digits}f}{spread}"


def lead(rivals: Mapping[str, SeedValues], what: str) -> str:
    """Return in one sentence, without its full stop, which of the rivals leads, or ties; the best must come first."""
    first, *others = rivals
    shown = f"{first} has the highest {what}, {mean_and_spread(rivals[first].values())}"
    if not others:
        return f"{first} has a {what} of {mean_and_spread(rivals[first].values())}"
    differences = {name: paired_difference(rivals[first], rivals[name]) for name in others}
    nearest = differences[others[0]]
    if nearest.seeds < FEWEST:
        return f"{shown}, {nearest.mean:.2f} above {others[0]}; {no_claim(nearest.seeds)}"
    basis = f"(difference by seed, over {nearest.seeds} seeds, ± its standard error)"
    if tied := [name for name, difference in differences.items() if not difference.is_certain]:
        names = [f"{name} ({differences[name]})" for name in tied[:MOST_TIES]]
        more = f" and {len(tied) - MOST_TIES} more" if len(tied) > MOST_TIES else ""
        return f"{shown}, in a tie with {', '.join(names)}{more} {basis}"
    return f"{first} leads with a {what} of {mean_and_spread(rivals[first].values())}, {nearest} against {others[0]} {basis}"


def sweep_verdict(outcomes: Sequence[tuple[Trial, Outcome]]) -> str:
    """Return in one sentence which setting of a sweep leads; methods that train on complete labels do not compete."""
    done = [(trial, outcome) for trial, outcome in outcomes if not isinstance(outcome, Failure)]
    if not done:
        return "No training of this sweep is finished."
    key, split = ("mAP", "test") if any(outcome["mAP"] is not None for _, outcome in done) else ("val_mAP", "validation")
    is_complete = key == "mAP" or all(outcome.get("val_labels", "complete") == "complete" for _, outcome in done)
    what = f"{split} mAP{'' if is_complete else ' of observed labels'}"
    values: dict[str, dict[int, float]] = {}
    complete = set()
    for trial, outcome in done:
        name = setting_name(trial)
        if outcome[key] is not None:
            values.setdefault(name, {})[trial.seed] = float(outcome[key])
            complete |= {name} if find_method(trial.method).needs_truth else set()
    ranked = sorted(values, key=lambda name: -statistics.mean(values[name].values()))
    rivals = [name for name in ranked if name not in complete] or ranked
    text = lead({name: values[name] for name in rivals}, what)
    if best := next((name for name in ranked if name not in rivals), None):
        text += f"; with complete labels, {best} reaches {mean_and_spread(values[best].values())}"
    return f"{text}."


def setting_name(trial: Trial) -> str:
    """Return the method of a training with the values of its varied options."""
    return " ".join([trial.method, *(f"{key}={exact(value)}" for key, value in trial.varied.items())])
