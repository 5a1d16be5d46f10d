"""The tables of trained rows: test mAP of every row, and Figure 2, the distribution of the probabilities on the test images."""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from aevlp.config.methods import find_method
from aevlp.config.sweep import NOTHING, VALUES, Failure, Outcome, Trial, exact, mean_and_spread, values_of
from aevlp.core.engine import make_accelerator
from aevlp.core.errors import UserError
from aevlp.core.paired import FEWEST, no_claim, paired_difference
from aevlp.data.dataset import Dataset, Split
from aevlp.experiments.reproduce import charts, paper
from aevlp.experiments.reproduce.paper import Sets
from aevlp.experiments.reproduce.plan import PlannedRow
from aevlp.experiments.reproduce.targets import ReproduceRequest, ReproduceTarget
from aevlp.models.model_folder import load_classifier
from aevlp.training.evaluate import probabilities
from aevlp.training.provenance import require_same_origin
from aevlp.training.run_folder import RunFolder
from aevlp.training.run_records import read_metrics
from aevlp.training.setup import origin_of
from aevlp.training.user_features import inputs_for

PAIRS = {"gpr+random": "bce+random", "gpr+vlpl": "vlpl", "gpr+ll-ct": "ll-ct", "gpr+damp": "bce+damp"}
"""Row with the GPR loss -> row with another loss on the same labels."""
BINS = 50  # of a distribution
KINDS = {"positive": 1, "negative": -1}


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


@dataclass(frozen=True)
class TrainedRow:
    """A row with the outcomes of its trainings."""

    planned: PlannedRow
    trials: Sequence[tuple[Trial, Outcome]]  # one per seed; none if the row is skipped

    @property
    def name(self) -> str:
        """Its name in the table."""
        return self.planned.row.name

    @property
    def results(self) -> list[dict[str, Any]]:
        """The results of its finished trainings."""
        return [outcome for _, outcome in self.trials if not isinstance(outcome, Failure)]

    def all(self, key: str) -> list[float]:
        """Return a figure of every finished training."""
        return [float(result[key]) for result in self.results]

    def by_seed(self, key: str) -> dict[int, float]:
        """Return a figure of every finished training by its seed."""
        return {trial.seed: float(outcome[key]) for trial, outcome in self.trials if not isinstance(outcome, Failure)}

    def shown(self, key: str) -> str:
        """Return mean and standard deviation of a figure over the seeds, or the reason why there is none."""
        if self.planned.skipped:
            return self.planned.skipped
        failed = len(self.trials) - len(self.results)
        if not self.results:
            return "failed"
        return mean_and_spread(self.all(key)) + (f" ({failed} failed)" if failed else "")


def trained_rows(planned: Sequence[PlannedRow], outcomes: Sequence[tuple[Trial, Outcome]]) -> list[TrainedRow]:
    """Return the rows with the outcomes of their trainings; rows may share a training."""

    def own(training: str) -> list[tuple[Trial, Outcome]]:
        return [pair for pair in outcomes if pair[0].label == training]

    return [TrainedRow(each, own(each.training.label) if each.training is not None else []) for each in planned]


def map_sheet(request: ReproduceRequest, rows: Sequence[TrainedRow], data: Dataset, column: str | None) -> Sheet:
    """Return the table of rows; `column`: the paper's data set that `data` is."""
    target = request.target
    key, called = ("mAP", "test mAP") if data.test is not None else ("val_mAP", "validation mAP")
    figures = {name: getattr(sets, column) for name, sets in target.paper.items()} if column else {}
    headings = [*target.headings, called]
    cells = [[*(row.planned.row.cells or [row.name]), row.shown(key)] for row in rows]

    def add(heading: str, column: Sequence[str]) -> None:
        headings.append(heading)
        for line, cell in zip(cells, column, strict=True):
            line.append(cell)

    if key == "mAP" and any(result["mAP"] != result["mAP_present"] for row in rows for result in row.results):
        add("of classes with a positive", [row.shown("mAP_present") if row.results else NOTHING for row in rows])
    if figures and column:
        add(f"paper, {paper.TITLES[column]}", [f"{figures[row.name]:.2f}" if row.name in figures else NOTHING for row in rows])
    notes = [target.remark] if target.remark else []
    if target.is_ranked:
        means = {row.name: statistics.mean(row.all(key)) for row in rows if row.results}
        ranked, remarks = _ranked(target, means, [column] if column else list(paper.TITLES))
        for heading, places in ranked.items():
            add(heading, [places.get(row.name, NOTHING) for row in rows])
        notes += remarks + _ties(rows, key) + _gains(means, figures)
    values = {row.name: row.all(key) for row in rows}
    label, title = f"{called}, %", request.chart_title
    if target.kind == "curve":
        chart = charts.curve(values, figures, label=label, name=target.headings[0], title=title)
    else:
        chart = charts.dots(values, figures, label=label, title=title)
    return Sheet(
        headings=headings,
        rows=cells,
        notes=notes + _same(rows, key),
        values=[value for row in rows for value in _values(request, row, figures)],
        chart=chart,
        outcomes=outcomes_of(rows),
        made_with=made_with(rows),
    )


def _same(rows: Sequence[TrainedRow], key: str) -> list[str]:
    """Return a note on rows with the same figures: the options in which they differ had no effect."""
    pairs = [
        f"`{one.name}` and `{other.name}`"
        for one, other in combinations([row for row in rows if row.results], 2)
        if one.planned.training != other.planned.training and one.all(key) == other.all(key)
    ]
    if not pairs:
        return []
    why = "what tells them apart may have come after the epoch whose model is kept"
    return [f"The same with every seed: {', '.join(pairs)}; {why}."]


def outcomes_of(rows: Sequence[TrainedRow]) -> list[tuple[str, object]]:
    """Return every training by name, with its outcome."""
    return list({trial.name: outcome for row in rows for trial, outcome in row.trials}.items())


def ranks(values: Mapping[str, float]) -> dict[str, int]:
    """Return name -> 1 for the highest value, 2 for the next, ...; equals share the better place."""
    return {name: 1 + sum(other > value for other in values.values()) for name, value in values.items()}


def agreement(ours: Mapping[str, float], theirs: Mapping[str, Sets], column: str) -> float | None:
    """Return Spearman's rank correlation, -1 to 1, of our values with the paper's on a data set; None: too few values."""
    values = [(value, getattr(theirs[name], column)) for name, value in ours.items() if name in theirs]
    first, second = ({pair[side] for pair in values} for side in (0, 1))
    if len(values) < 3 or len(first) < 2 or len(second) < 2:
        return None
    return float(spearmanr(*zip(*values, strict=True)).statistic)


def _ranked(
    target: ReproduceTarget, means: Mapping[str, float], columns: Sequence[str]
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return (heading -> row -> its place, here and in the paper; remarks), among the rows that have a figure."""
    ours = {name: mean for name, mean in means.items() if name in target.paper and not find_method(name).needs_truth}
    places = {"rank": ranks(ours)}
    for column in columns:
        theirs = ranks({name: getattr(target.paper[name], column) for name in ours})
        places[f"rank in the paper, {paper.TITLES[column]}"] = theirs
    found = {column: agreement(ours, target.paper, column) for column in columns}
    shown = ", ".join(f"{paper.TITLES[column]} {value:.2f}" for column, value in found.items() if value is not None)
    remarks = ["Ranks are among the paper's rows that have a figure here and are not trained on complete labels."]
    if shown:
        remarks.append(f"Rank correlation (Spearman) with the paper's column: {shown}, over {len(ours)} rows.")
    return {heading: {name: str(place) for name, place in each.items()} for heading, each in places.items()}, remarks


def _ties(rows: Sequence[TrainedRow], key: str) -> list[str]:
    """Return a note on neighbours in rank whose difference by seed is within its noise, or on too few seeds to tell."""
    ranked = sorted((row for row in rows if row.results), key=lambda row: -statistics.mean(row.all(key)))
    pairs = [(one, other, paired_difference(one.by_seed(key), other.by_seed(key))) for one, other in pairwise(ranked)]
    if not pairs:
        return []
    if (seeds := min(difference.seeds for _, _, difference in pairs)) < FEWEST:
        return [f"Of ranks and differences: {no_claim(seeds)}."]
    tied = [f"`{one.name}` and `{other.name}` ({each})" for one, other, each in pairs if not each.is_certain]
    return [f"Ties, by the difference per seed and its standard error: {', '.join(tied)}."] if tied else []


def _gains(means: Mapping[str, float], figures: Mapping[str, float]) -> list[str]:
    """Return a note on the gain by the GPR loss with each source of labels that has both rows."""
    found = []
    for ours, other in PAIRS.items():
        if ours in means and other in means:
            there = f" (paper: {figures[ours] - figures[other]:+.2f})" if figures else ""
            found.append(f"`{ours}` {means[ours] - means[other]:+.2f} against `{other}`{there}")
    return [f"What the GPR loss adds: {'; '.join(found)}."] if found else []


def _values(request: ReproduceRequest, row: TrainedRow, figures: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return a line of the CSV per seed, or one for a row that is skipped."""
    target_row = row.planned.row
    options = " ".join(f"{key}={exact(value)}" for key, value in target_row.options.items())
    own = {"row": row.name, "method": target_row.method, "options": options}
    theirs = {"paper": figures.get(row.name, "")} if figures else {}
    empty = dict.fromkeys(VALUES, "")
    if row.planned.skipped:
        return [{**own, "seed": "", "outcome": "skipped", **empty, **theirs, "run": ""}]
    lines = []
    for trial, outcome in row.trials:
        if isinstance(outcome, Failure):
            lines.append({**own, "seed": trial.seed, "outcome": "failed", **empty, **theirs, "run": ""})
        else:
            filled = dict(zip(VALUES, values_of(outcome), strict=True))
            run = str(request.runs / trial.name)
            lines.append({**own, "seed": trial.seed, "outcome": "done", **filled, **theirs, "run": run})
    return lines


def made_with(rows: Sequence[TrainedRow]) -> list[tuple[str, str]]:
    """Return backbones, teachers, modes, epochs and versions of the finished trainings, as (name, text)."""
    results = [result for row in rows for result in row.results]
    configs = [trial.config for row in rows for trial, outcome in row.trials if not isinstance(outcome, Failure)]

    def backbone(model: Any) -> str:
        return f"none, features `{model.features}`" if model.features else f"`{model.backbone}` at {model.image_size} px"

    lists: dict[str, list[str]] = {
        "backbone": [backbone(config.model) for config in configs],
        "teacher": [f"`{result['teacher']}`" for result in results if result["teacher"] is not None],
        "mode": [config.train.mode for config in configs],
        "epochs": [str(config.train.epochs) for config in configs],
    }
    versions = [", ".join(f"{name} {number}" for name, number in result["versions"].items()) for result in results]
    shown = {name: ", ".join(dict.fromkeys(texts)) for name, texts in lists.items()}
    shown["versions"] = "; ".join(dict.fromkeys(versions))
    return [(name, text) for name, text in shown.items() if text]


def training_seconds(request: ReproduceRequest, rows: Sequence[TrainedRow]) -> float:
    """Return the seconds that the epochs of all finished trainings took, of earlier calls too, without scoring and evaluation."""
    total = 0.0
    for name, outcome in outcomes_of(rows):
        file = request.runs / name / "metrics.jsonl"
        if isinstance(outcome, dict) and file.is_file():
            with suppress(UserError, LookupError):  # a damaged file is not worth a failure here
                total += sum(outcome["images"]["train"] / line["images_per_second"] for line in read_metrics(file))
    return total


def require_test(data: Dataset) -> Split:
    """Return the test split; refuse a data set without one."""
    if data.test is None:
        raise UserError(f"{data.place}: has no test split, of which fig2 shows the probabilities; add one to it")
    return data.test


def distribution_sheet(request: ReproduceRequest, rows: Sequence[TrainedRow], data: Dataset) -> Sheet:
    """Return the figure, with the CSV of its bins and a table of means and shares."""
    test = require_test(data)
    values: list[dict[str, Any]] = []
    panels: dict[str, Mapping[str, npt.NDArray[np.floating]]] = {}
    cells = []
    for row in rows:
        total = {kind: np.zeros(BINS, np.int64) for kind in KINDS}
        means: dict[str, list[float]] = {kind: [] for kind in KINDS}
        low: list[float] = []
        for trial, outcome in row.trials:
            if isinstance(outcome, Failure):
                continue
            run = RunFolder(request.runs / trial.name)
            if trial.config.model.features is not None:  # the model is evaluated on the current content of the file
                require_same_origin(run.path, outcome, origin_of(trial.config.model))
            accelerator = make_accelerator(trial.config.engine)
            classifier = load_classifier(run.model).to(accelerator.device)
            inputs = inputs_for(classifier, trial.config.model.features, trial.config.train.workers)
            found = probabilities(classifier, inputs(test), accelerator)  # float32 [N, C]
            for kind, value in KINDS.items():
                own = found[test.evaluation_labels == value]
                counts = np.histogram(own, BINS, (0, 1))[0]
                total[kind] += counts
                means[kind].append(float(own.mean()))
                values += _bins(row.name, trial.seed, kind, counts)
            low.append(100 * float((found[test.evaluation_labels == 1] < 0.5).mean()))
        panels[row.name] = {kind: _density(counts) for kind, counts in total.items()}
        shown = [mean_and_spread(means[kind], 3) for kind in KINDS]
        cells.append([row.name, row.shown("mAP"), *shown, mean_and_spread(low, 1)])
    columns = ["mean probability of positives", "of negatives", "positives below 0.5, %"]
    return Sheet(
        headings=[*request.target.headings, "test mAP", *columns],
        rows=cells,
        notes=[request.target.remark],
        values=values or [dict.fromkeys(("method", "seed", "kind", "from", "to", "count", "density"), NOTHING)],
        chart=charts.densities(panels, title=request.chart_title),
        outcomes=outcomes_of(rows),
        made_with=made_with(rows),
    )


def _density(counts: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Return the counts [BINS] scaled to an area of 1; 0 where nothing was counted."""
    return counts.astype(np.float64) * (BINS / max(int(counts.sum()), 1))


def _bins(method: str, seed: int, kind: str, counts: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    edges = [place / BINS for place in range(BINS + 1)]
    return [
        {"method": method, "seed": seed, "kind": kind, "from": low, "to": high, "count": int(count), "density": float(share)}
        for low, high, count, share in zip(edges[:-1], edges[1:], counts, _density(counts), strict=True)
    ]
