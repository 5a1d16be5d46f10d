"""Figure 2: the distribution of the probabilities of true positives and true negatives on the test images."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from accelerate import Accelerator

from aevlp.config.config import Config
from aevlp.config.sweep import NOTHING, Failure, mean_and_spread
from aevlp.core.engine import make_accelerator
from aevlp.core.errors import UserError
from aevlp.data.dataset import Dataset, Split
from aevlp.experiments.reproduce import charts
from aevlp.experiments.reproduce.map_tables import TrainedRow, made_with, outcomes_of
from aevlp.experiments.reproduce.page import Sheet
from aevlp.experiments.reproduce.targets import ReproduceRequest
from aevlp.models.model_folder import load_classifier
from aevlp.training.evaluate import probabilities
from aevlp.training.provenance import require_same_origin
from aevlp.training.run_folder import RunFolder
from aevlp.training.setup import origin_of
from aevlp.training.user_features import inputs_for

BINS = 50
KINDS = {"positive": 1, "negative": -1}
Floats = npt.NDArray[np.float32]


def require_test(data: Dataset) -> Split:
    """Return the test split; refuse a data set without one."""
    if data.test is None:
        raise UserError(f"{data.train.root}: has no test split, of which fig2 shows the probabilities; add one to it")
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
            found = _probabilities(run, trial.config, test, make_accelerator(trial.config.engine))
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


def _probabilities(run: RunFolder, config: Config, test: Split, accelerator: Accelerator) -> Floats:
    """Return the probabilities of the test images by the model of a finished run, float32 [N, C]."""
    classifier = load_classifier(run.model).to(accelerator.device)
    return probabilities(classifier, inputs_for(classifier, config.model.features, config.train.workers)(test), accelerator)


def _density(counts: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """Return the counts [BINS] scaled to an area of 1; 0 where nothing was counted."""
    return counts.astype(np.float64) * (BINS / max(int(counts.sum()), 1))


def _bins(method: str, seed: int, kind: str, counts: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    edges = [place / BINS for place in range(BINS + 1)]
    return [
        {"method": method, "seed": seed, "kind": kind, "from": low, "to": high, "count": int(count), "density": float(share)}
        for low, high, count, share in zip(edges[:-1], edges[1:], counts, _density(counts), strict=True)
    ]
