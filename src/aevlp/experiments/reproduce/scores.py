"""Tables and curves of test mAP: the rows are trained with every seed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aevlp.config.sweep import FIGURES, MEASURED, Failure, Outcome, Trial, exact, trials_of
from aevlp.experiments.compare import train_all
from aevlp.experiments.reproduce import paper
from aevlp.experiments.reproduce.place import RUNS, claim_place
from aevlp.experiments.reproduce.plan import Planned, rows_of
from aevlp.experiments.reproduce.ranks import agreement, ranks, rivals
from aevlp.experiments.reproduce.request import Request
from aevlp.experiments.reproduce.sheet import NOTHING, Sheet, mean_and_spread
from aevlp.experiments.reproduce.targets import Target

if TYPE_CHECKING:
    from aevlp.data.dataset import Dataset


@dataclass(frozen=True)
class Score:
    """A row with what came of it."""

    planned: Planned
    trials: Sequence[tuple[Trial, Outcome]]  # a seed each; none: it is skipped

    @property
    def name(self) -> str:
        """As the table calls it."""
        return self.planned.line.name

    @property
    def results(self) -> list[dict[str, Any]]:
        """Those of the trainings that are done."""
        return [outcome for _, outcome in self.trials if not isinstance(outcome, Failure)]

    def all(self, key: str) -> list[float]:
        """A figure of every training that is done."""
        return [float(result[key]) for result in self.results]

    def shown(self, key: str) -> str:
        """Mean and standard deviation of a figure over the seeds, or why there is none."""
        if self.planned.skipped:
            return self.planned.skipped
        failed = len(self.trials) - len(self.results)
        if not self.results:
            return "failed"
        return mean_and_spread(self.all(key)) + (f" ({failed} failed)" if failed else "")


def train_rows(request: Request, planned: Sequence[Planned], path: Path, data: Dataset) -> list[Score]:
    """The rows with their outcomes, when all are trained; finished ones are taken as they are."""
    runs = request.out / RUNS
    trials = trials_of(request.recipe, rows_of(planned), request.seeds)
    outcomes = train_all(trials, path, runs, jobs=request.jobs, keep=lambda _: claim_place(request, data))
    labels = {each.row.label for each in planned if each.row is not None}
    by_label = {label: [pair for pair in outcomes if pair[0].label == label] for label in labels}
    return [Score(each, by_label[each.row.label] if each.row is not None else []) for each in planned]


def measured_by(data: Dataset) -> tuple[str, str]:
    """(key of the result, what it is called): what rows are judged by."""
    return ("mAP", "test mAP") if data.test is not None else ("val_mAP", "validation mAP")


def score_sheet(request: Request, scores: Sequence[Score], data: Dataset, column: str | None) -> Sheet:
    """The table of rows; `column`: the paper's data set that this one is."""
    from aevlp.experiments.reproduce import pictures

    target = request.target
    key, called = measured_by(data)
    figures = {name: getattr(sets, column) for name, sets in target.figures.items()} if column else {}
    differ = key == "mAP" and any(result["mAP"] != result["mAP_present"] for score in scores for result in score.results)
    headings = [*target.headings, called, *(["of classes with a positive"] if differ else [])]
    rows = [[*(score.planned.line.cells or [score.name]), score.shown(key)] for score in scores]
    if differ:
        rows = [[*row, score.shown("mAP_present") if score.results else NOTHING] for row, score in zip(rows, scores, strict=True)]
    if figures and column:
        headings.append(f"paper, {paper.TITLES[column]}")
        rows = [[*row, _figure(figures.get(score.name))] for row, score in zip(rows, scores, strict=True)]
    notes = [target.remark] if target.remark else []
    if target.is_ranked:
        means = {score.name: statistics.mean(score.all(key)) for score in scores if score.results}
        ranked, remarks = _ranked(target, means, [column] if column else list(paper.TITLES))
        headings += ranked.pop("")
        rows = [[*row, *ranked[score.name]] for row, score in zip(rows, scores, strict=True)]
        notes += remarks + _gains(means, figures)
    notes += _alike(scores, key)
    values = {score.name: score.all(key) for score in scores}
    shown = {"label": f"{called}, %", "title": pictures.title_of(request)}
    is_course = target.kind == "course"
    return Sheet(
        headings=headings,
        rows=rows,
        notes=notes,
        values=[value for score in scores for value in _values(request, score, figures)],
        picture=pictures.course(values, figures, name=target.headings[0], **shown)
        if is_course
        else pictures.rows(values, figures, **shown),
        outcomes=outcomes_of(scores),
        made=made_of(scores),
    )


def _alike(scores: Sequence[Score], key: str) -> list[str]:
    """Says so where two rows have the same figures: what tells them apart has then not come into play."""
    done = [score for score in scores if score.results]
    pairs = [
        f"`{one.name}` and `{other.name}`"
        for i, one in enumerate(done)
        for other in done[i + 1 :]
        if one.planned.row != other.planned.row and one.all(key) == other.all(key)
    ]
    if not pairs:
        return []
    why = "what tells them apart may have come after the epoch whose model is kept"
    return [f"The same with every seed: {', '.join(pairs)}; {why}."]


def outcomes_of(scores: Sequence[Score]) -> list[tuple[str, object]]:
    """Every training by name, with its outcome."""
    return list({trial.name: outcome for score in scores for trial, outcome in score.trials}.items())


def _figure(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _ranked(target: Target, means: Mapping[str, float], columns: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """(row -> its place here and in the paper, '' -> the headings; what to say of them). Among the rows that have a figure."""
    ours = rivals(means)
    here = ranks(ours)
    there = {column: ranks({name: getattr(target.figures[name], column) for name in ours}) for column in columns}
    cells = {line.name: [NOTHING] * (1 + len(columns)) for line in target.lines}
    for name in ours:
        cells[name] = [str(here[name]), *(str(there[column][name]) for column in columns)]
    cells[""] = ["rank", *(f"rank in the paper, {paper.TITLES[column]}" for column in columns)]
    found = {column: agreement(ours, target.figures, column) for column in columns}
    shown = ", ".join(f"{paper.TITLES[column]} {value:.2f}" for column, value in found.items() if value is not None)
    said = [f"Rank correlation (Spearman) with the paper's column: {shown}, over {len(ours)} rows."] if shown else []
    return cells, ["Ranks are among the rows that have a figure here and are not trained on complete labels.", *said]


PAIRS = {"gpr+random": "bce+random", "gpr+vlpl": "vlpl", "gpr+ll-ct": "ll-ct", "gpr+damp": "bce+damp"}


def _gains(means: Mapping[str, float], figures: Mapping[str, float]) -> list[str]:
    """What the GPR loss adds to each source of labels, where both rows are there."""
    found = []
    for ours, other in PAIRS.items():
        if ours in means and other in means:
            there = f" (paper: {figures[ours] - figures[other]:+.2f})" if figures else ""
            found.append(f"`{ours}` {means[ours] - means[other]:+.2f} against `{other}`{there}")
    return [f"What the GPR loss adds: {'; '.join(found)}."] if found else []


def _values(request: Request, score: Score, figures: Mapping[str, float]) -> list[dict[str, Any]]:
    """A row of the CSV per seed, or one for a row that is skipped."""
    line = score.planned.line
    options = " ".join(f"{key}={exact(value)}" for key, value in line.options.items())
    own = {"row": line.name, "method": line.method, "options": options}
    theirs = {"paper": figures.get(line.name, "")} if figures else {}
    empty = dict.fromkeys([*MEASURED, *(f"pseudo_{figure}" for figure in FIGURES), "images_per_second"], "")
    if score.planned.skipped:
        return [{**own, "seed": "", "outcome": "skipped", **empty, **theirs, "run": ""}]
    found = []
    for trial, outcome in score.trials:
        filled, run = empty, ""
        if not isinstance(outcome, Failure):
            run = str(request.out / RUNS / trial.name)
            pseudo = {f"pseudo_{figure}": outcome["pseudo_labels"][figure] for figure in FIGURES}
            filled = {**empty, **{name: outcome[name] for name in MEASURED}, **pseudo}
            filled["images_per_second"] = outcome["images_per_second"]
        state = "failed" if isinstance(outcome, Failure) else "done"
        found.append({**own, "seed": trial.seed, "outcome": state, **filled, **theirs, "run": run})
    return found


def made_of(scores: Sequence[Score]) -> list[tuple[str, str]]:
    """Backbones, teachers, epochs and versions of the trainings that are done."""
    results = [result for score in scores for result in score.results]
    configs = [trial.config for score in scores for trial, outcome in score.trials if not isinstance(outcome, Failure)]
    teachers = dict.fromkeys(str(result["teacher"]) for result in results if result["teacher"] is not None)
    versions = dict.fromkeys(", ".join(f"{name} {number}" for name, number in result["versions"].items()) for result in results)
    sides = dict.fromkeys(
        f"none, features `{config.model.features}`"
        if config.model.features
        else f"`{config.model.backbone}` at {config.model.image_size} px"
        for config in configs
    )
    shown = {
        "backbone": ", ".join(sides),
        "teacher": ", ".join(f"`{name}`" for name in teachers),
        "mode": ", ".join(dict.fromkeys(config.train.mode for config in configs)),
        "epochs": ", ".join(dict.fromkeys(str(config.train.epochs) for config in configs)),
        "versions": "; ".join(versions),
    }
    return [(name, text) for name, text in shown.items() if text]


def training_seconds(request: Request, scores: Sequence[Score]) -> float:
    """Seconds that the epochs of the finished trainings took, whenever that was, without scoring and evaluation."""
    total = 0.0
    for name, outcome in outcomes_of(scores):
        file = request.out / RUNS / name / "metrics.jsonl"
        if isinstance(outcome, dict) and file.is_file():
            with suppress(ValueError, LookupError, TypeError, ZeroDivisionError):  # a damaged file costs no more than a time
                rates = [json.loads(line)["images_per_second"] for line in file.read_text().splitlines()]
                total += sum(outcome["images"]["train"] / rate for rate in rates)
    return total
