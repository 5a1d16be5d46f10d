"""The report of a sweep: its settings side by side, with a way to every run's own report."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from aevlp.config.methods import find_method
from aevlp.config.sweep import FIGURES, Failure, Outcome, Sweep, Trial, exact
from aevlp.core.files import write_text
from aevlp.reports import sweep_charts as compare_charts
from aevlp.reports.layout import number, page
from aevlp.reports.svg import DISTINCT
from aevlp.reports.sweep_charts import Course
from aevlp.training.run_folder import RunFolder

REPORT = "report.html"
MOST_SETTINGS = 40  # in the chart of seeds
MOST_COLUMNS, MOST_CLASSES = 12, 200  # of the table of classes


@dataclass(frozen=True)
class Link:
    """A run of a setting."""

    seed: int
    href: str | None  # None: it has no report
    figure: float | None  # None: it failed


@dataclass(frozen=True)
class Setting:
    """A method with its values of the varied options, over all its seeds."""

    name: str
    method: str
    values: tuple[str, ...]  # of the varied options
    results: tuple[dict[str, Any], ...]
    links: tuple[Link, ...]
    courses: tuple[Course, ...]

    def all(self, key: str) -> list[float]:
        """The figure `key` (a.b: within a) of every run that has it."""
        found = []
        for result in self.results:
            value: Any = result
            for part in key.split("."):
                value = (value or {}).get(part)
            if value is not None:
                found.append(float(value))
        return found

    def mean(self, key: str) -> float | None:
        """The mean of the figure over the runs; None where none has it."""
        values = self.all(key)
        return statistics.mean(values) if values else None

    def shown(self, key: str, digits: int = 2, scale: float = 1) -> Markup:
        """Mean ± standard deviation."""
        values = self.all(key)
        spread = f" ± {scale * statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        return number(self.mean(key), key, digits, scale) + spread


def write_compare_report(out: Path, sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]], *, data: Path) -> Path:
    """Writes the report of a sweep into its folder, whole, and returns where it is."""
    settings = _settings(out, sweep, outcomes)
    failures = [(trial.name, outcome.line) for trial, outcome in outcomes if isinstance(outcome, Failure)]
    file = out / REPORT
    write_text(file, compare_text(sweep, settings, failures, data))
    return file


def compare_text(sweep: Sweep, settings: Sequence[Setting], failures: Sequence[tuple[str, str]], data: Path) -> str:
    """The page."""
    done = [setting for setting in settings if setting.results]
    key = "mAP" if any(setting.all("mAP") for setting in done) else "val_mAP"
    ranked = sorted((s for s in done if s.all(key)), key=lambda s: -(s.mean(key) or 0.0))
    shown = {setting.name: setting.all(key) for setting in ranked[:MOST_SETTINGS]}
    split = "test" if key == "mAP" else "validation"
    classes = _classes(ranked[:MOST_COLUMNS])
    return page(
        "compare.html.j2",
        title=f"{len(settings)} {'settings' if sweep.varied else 'methods'} on {data.resolve().name}",
        verdict=_verdict(ranked, key, split),
        split=split,
        key=key,
        varied=sweep.varied,
        settings=[*ranked, *(setting for setting in settings if setting not in ranked)],
        columns=_columns(done, key),
        failures=failures,
        seeds=compare_charts.seeds("seeds", shown, label=f"{split} mAP, %") if shown else None,
        hidden=max(len(ranked) - MOST_SETTINGS, 0),
        courses=compare_charts.courses("courses", [setting.courses for setting in ranked]) if ranked else None,
        ranked=ranked,
        distinct=DISTINCT,
        classes=classes[:MOST_CLASSES],
        others=max(len(classes) - MOST_CLASSES, 0),
        compared=ranked[:MOST_COLUMNS],
        data=data,
    )


def _settings(out: Path, sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]]) -> list[Setting]:
    """The settings in the order of the sweep."""
    found = []
    for label in dict.fromkeys(trial.label for trial, _ in outcomes):
        ours = [(trial, outcome) for trial, outcome in outcomes if trial.label == label]
        first = ours[0][0]
        runs = [(trial, outcome) for trial, outcome in ours if not isinstance(outcome, Failure)]
        found.append(
            Setting(
                name=" ".join([first.method, *(f"{key}={exact(value)}" for key, value in first.varied.items())]),
                method=first.method,
                values=tuple(exact(first.varied[key]) if key in first.varied else "" for key in sweep.varied),
                results=tuple(outcome for _, outcome in runs),
                links=tuple(_link(out, trial, outcome) for trial, outcome in ours),
                courses=tuple(_course(RunFolder(out / trial.name)) for trial, _ in runs),
            )
        )
    return found


def _link(out: Path, trial: Trial, outcome: Outcome) -> Link:
    has_report = RunFolder(out / trial.name).report.is_file()
    figure = None if isinstance(outcome, Failure) else outcome["val_mAP"] if outcome["mAP"] is None else outcome["mAP"]
    return Link(trial.seed, f"{quote(trial.name)}/{REPORT}" if has_report else None, figure)


def _course(run: RunFolder) -> Course:
    """Validation mAP by epoch; of a run whose file is gone, nothing."""
    file = run.path / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []
    return [line["epoch"] for line in lines], [line["val_mAP"] for line in lines]


def _verdict(ranked: Sequence[Setting], key: str, split: str) -> Markup:
    """Who leads, and by how much; a method that sees complete labels does not compete."""
    if not ranked:
        return Markup("No training of this sweep is finished.")
    complete = [setting for setting in ranked if find_method(setting.method).loss.needs_truth]
    rivals = [setting for setting in ranked if setting not in complete] or list(ranked)
    said = Markup("<b>{}</b> leads with a {} mAP of <b>{}</b>").format(rivals[0].name, split, rivals[0].shown(key))
    if len(rivals) > 1:
        gap = (rivals[0].mean(key) or 0.0) - (rivals[1].mean(key) or 0.0)
        said += Markup(", {} above {}").format(number(gap), rivals[1].name)
    if complete and complete[0] not in rivals:
        said += Markup("; with complete labels, {} reaches {}").format(complete[0].name, complete[0].shown(key))
    return said + "."


def _columns(done: Sequence[Setting], key: str) -> list[tuple[str, str, int, float]]:
    """(heading, key, digits, scale) of the figures that some run has."""
    differ = any(result["mAP"] != result["mAP_present"] for setting in done for result in setting.results)
    possible = [
        ("test mAP", "mAP", 2, 1.0),
        *([("of classes with a positive", "mAP_present", 2, 1.0)] if differ else []),
        ("validation mAP", "val_mAP", 2, 1.0),
        ("macro F1", "labels.macro_F1", 2, 1.0),
        *((f"pseudo-label {figure.replace('_', ' ')}", f"pseudo_labels.{figure}", 1, 100.0) for figure in FIGURES),
        ("best epoch", "best_epoch", 1, 1.0),
    ]
    return [column for column in possible if any(setting.all(column[1]) for setting in done)]


@dataclass(frozen=True)
class ClassRow:
    """The average precision of a class, in percent, by setting."""

    name: str
    ap: tuple[float | None, ...]
    spread: float


def _classes(compared: Sequence[Setting]) -> list[ClassRow]:
    """The classes that the settings differ in most, the greatest difference first."""
    rows = []
    for name in dict.fromkeys(n for s in compared for r in s.results for n in (r["per_class_AP"] or ())):
        means = []
        for setting in compared:
            values = [r["per_class_AP"].get(name) for r in setting.results if r["per_class_AP"]]
            known = [value for value in values if value is not None]
            means.append(statistics.mean(known) if known else None)
        present = [mean for mean in means if mean is not None]
        if present:
            rows.append(ClassRow(name, tuple(means), max(present) - min(present)))
    return sorted(rows, key=lambda row: -row.spread)
