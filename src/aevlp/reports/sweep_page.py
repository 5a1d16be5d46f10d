"""The page of a sweep: its settings side by side, with links to the page of every run."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from aevlp.config.sweep import FIGURES, Failure, Outcome, Sweep, Trial, exact, setting_name, sweep_verdict
from aevlp.core.files import write_text
from aevlp.reports import charts
from aevlp.reports.charts import EpochValues
from aevlp.reports.layout import number, render_page
from aevlp.reports.svg import DISTINCT
from aevlp.training.run_folder import RunFolder

REPORT = "report.html"
MOST_SETTINGS = 40  # in the chart of seeds
MOST_COLUMNS, MOST_CLASSES = 12, 200  # of the table of classes

RunLink = tuple[int, str | None, float | None]  # seed; address, or None without a report; mAP, or None if the run failed
ClassComparison = tuple[str, Sequence[float | None], float]  # class; its AP by setting, in percent; largest difference


@dataclass(frozen=True)
class SettingResults:
    """The runs of a method with one value of each varied option, over all seeds."""

    name: str
    method: str
    values: tuple[str, ...]  # of the varied options
    results: tuple[dict[str, Any], ...]  # of the runs that did not fail
    links: tuple[RunLink, ...]
    val_mAP: tuple[EpochValues, ...]

    def values_of(self, key: str) -> list[float]:
        """Return the value of `key` ("a.b": b within a) in every result that has it."""
        found = []
        for result in self.results:
            value: Any = result
            for part in key.split("."):
                value = (value or {}).get(part)
            if value is not None:
                found.append(float(value))
        return found

    def mean(self, key: str) -> float | None:
        """Return the mean over the runs, or None if no run has the key."""
        values = self.values_of(key)
        return statistics.mean(values) if values else None

    def formatted(self, key: str, digits: int = 2, scale: float = 1) -> Markup:
        """Return mean ± standard deviation over the runs."""
        values = self.values_of(key)
        spread = f" ± {scale * statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        return number(self.mean(key), key, digits, scale) + spread


def write_compare_report(out: Path, sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]], *, data: Path) -> Path:
    """Write the page of a sweep into its folder and return its path."""
    settings = _settings(out, sweep, outcomes)
    done = [setting for setting in settings if setting.results]
    key = "mAP" if any(setting.values_of("mAP") for setting in done) else "val_mAP"
    ranked = sorted((s for s in done if s.values_of(key)), key=lambda s: -(s.mean(key) or 0.0))
    shown = {setting.name: setting.values_of(key) for setting in ranked[:MOST_SETTINGS]}
    split = "test" if key == "mAP" else "validation"
    is_complete = all(result.get("val_labels", "complete") == "complete" for setting in done for result in setting.results)
    observed = "" if key == "mAP" or is_complete else " of observed labels"
    classes = _compare_classes(ranked[:MOST_COLUMNS])
    trained = [setting for setting in ranked if any(epochs for epochs, _ in setting.val_mAP)]  # zero-shot methods have no epochs
    page = render_page(
        "sweep.html.j2",
        title=f"{len(settings)} {'settings' if sweep.varied else 'methods'} on {data.resolve().name}",
        summary=sweep_verdict(outcomes),
        split=split,
        key=key,
        varied=sweep.varied,
        settings=[*ranked, *(setting for setting in settings if setting not in ranked)],
        columns=_columns(done, is_complete=is_complete),
        warnings=[
            (f"{setting.name}, seed {result['seed']}", text)
            for setting in settings
            for result in setting.results
            for text in result.get("warnings") or ()
        ],
        failures=[(trial.name, outcome.line) for trial, outcome in outcomes if isinstance(outcome, Failure)],
        seeds_chart=charts.seeds_per_setting("seeds", shown, label=f"{split} mAP{observed}, %") if shown else None,
        hidden=max(len(ranked) - MOST_SETTINGS, 0),
        validation_chart=charts.validation_curves("courses", [setting.val_mAP for setting in trained]) if trained else None,
        ranked=ranked,
        trained=trained,
        distinct=DISTINCT,
        classes=classes[:MOST_CLASSES],
        others=max(len(classes) - MOST_CLASSES, 0),
        compared=ranked[:MOST_COLUMNS],
        data=data,
    )
    write_text(out / REPORT, page)
    return out / REPORT


def _settings(out: Path, sweep: Sweep, outcomes: Sequence[tuple[Trial, Outcome]]) -> list[SettingResults]:
    """Return the settings in the order of the sweep."""
    found = []
    for label in dict.fromkeys(trial.label for trial, _ in outcomes):
        ours = [(trial, outcome) for trial, outcome in outcomes if trial.label == label]
        first = ours[0][0]
        runs = [(trial, outcome) for trial, outcome in ours if not isinstance(outcome, Failure)]
        found.append(
            SettingResults(
                name=setting_name(first),
                method=first.method,
                values=tuple(exact(first.varied[key]) if key in first.varied else "" for key in sweep.varied),
                results=tuple(outcome for _, outcome in runs),
                links=tuple(_link(out, trial, outcome) for trial, outcome in ours),
                val_mAP=tuple(_validation_mAP(RunFolder(out / trial.name)) for trial, _ in runs),
            )
        )
    return found


def _link(out: Path, trial: Trial, outcome: Outcome) -> RunLink:
    """Return the link to a run, relative to the sweep's folder."""
    has_report = RunFolder(out / trial.name).report.is_file()
    value = None if isinstance(outcome, Failure) else outcome["val_mAP"] if outcome["mAP"] is None else outcome["mAP"]
    return trial.seed, f"{quote(trial.name)}/{REPORT}" if has_report else None, value


def _validation_mAP(run: RunFolder) -> EpochValues:
    """Return the validation mAP per epoch; empty if the run has lost its file."""
    lines = run.read_metrics() if run.metrics.is_file() else []
    return [line["epoch"] for line in lines], [line["val_mAP"] for line in lines]


def _columns(done: Sequence[SettingResults], *, is_complete: bool) -> list[tuple[str, str, int, float]]:
    """Return (heading, key, digits, scale) of the metrics that some run has."""
    differ = any(result["mAP"] != result["mAP_present"] for setting in done for result in setting.results)
    possible = [
        ("test mAP", "mAP", 2, 1.0),
        *([("mAP over classes with a positive", "mAP_present", 2, 1.0)] if differ else []),
        ("validation mAP" if is_complete else "validation mAP, observed labels only", "val_mAP", 2, 1.0),
        ("chance", "baselines.chance", 2, 1.0),
        ("teacher alone", "baselines.teacher", 2, 1.0),
        ("macro F1, measured", "labels.macro_F1", 2, 1.0),
        ("macro F1 at 0.5", "labels.macro_F1_at_half", 2, 1.0),
        *((f"pseudo-label {metric.replace('_', ' ')}", f"pseudo_labels.{metric}", 1, 100.0) for metric in FIGURES),
        ("best epoch", "best_epoch", 1, 1.0),
    ]
    return [column for column in possible if any(setting.values_of(column[1]) for setting in done)]


def _compare_classes(compared: Sequence[SettingResults]) -> list[ClassComparison]:
    """Return a row per class, the largest difference between the settings first."""
    rows: list[ClassComparison] = []
    for name in dict.fromkeys(n for s in compared for r in s.results for n in (r["per_class_AP"] or ())):
        means = []
        for setting in compared:
            values = [r["per_class_AP"].get(name) for r in setting.results if r["per_class_AP"]]
            known = [value for value in values if value is not None]
            means.append(statistics.mean(known) if known else None)
        present = [mean for mean in means if mean is not None]
        if present:
            rows.append((name, means, max(present) - min(present)))
    return sorted(rows, key=lambda row: -row[2])
