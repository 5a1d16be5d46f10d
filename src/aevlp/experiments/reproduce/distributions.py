"""Figure 2: where the probabilities of true positives and true negatives of the test images lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aevlp.config.sweep import Failure
from aevlp.core.errors import UserError
from aevlp.experiments.reproduce.place import RUNS
from aevlp.experiments.reproduce.request import Request
from aevlp.experiments.reproduce.scores import Score, made_of, outcomes_of
from aevlp.experiments.reproduce.sheet import NOTHING, Sheet, mean_and_spread
from aevlp.training.run_folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator

    from aevlp.config.config import Config
    from aevlp.data.dataset import Dataset, Split

BINS = 50
KINDS = {"positive": 1, "negative": -1}
Floats = npt.NDArray[np.float32]


def require_test(data: Dataset) -> Split:
    """The test split; refused if there is none."""
    if data.test is None:
        raise UserError(f"{data.train.root}: has no test split, of which fig2 shows the probabilities; add one to it")
    return data.test


def test_probabilities(run: RunFolder, config: Config, test: Split, accelerator: Accelerator) -> Floats:
    """Float32 [N, C]: what the model of a finished run says of the test images."""
    from aevlp.models.model_folder import load_classifier
    from aevlp.training.evaluate import probabilities
    from aevlp.training.user_features import inputs_for

    classifier = load_classifier(run.model).to(accelerator.device)
    return probabilities(classifier, inputs_for(classifier, config.model.features, config.train.workers)(test), accelerator)


def histograms(found: Floats, truth: npt.NDArray[np.int8]) -> dict[str, npt.NDArray[np.int64]]:
    """Kind -> [BINS]: how many cells of true positives and true negatives have a probability in each bin of 0..1."""
    return {kind: np.histogram(found[truth == value], BINS, (0, 1))[0] for kind, value in KINDS.items()}


def density(counts: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """[BINS]: the same with an area of 1; 0 where nothing was counted."""
    return counts.astype(np.float64) * (BINS / max(int(counts.sum()), 1))


def distribution_sheet(request: Request, scores: Sequence[Score], data: Dataset) -> Sheet:
    """The figure, with the CSV of its bins and a table of what is to be seen in it."""
    from aevlp.core.engine import make_accelerator
    from aevlp.experiments.reproduce import pictures
    from aevlp.training.provenance import require_same_origin
    from aevlp.training.setup import origin_of

    test = require_test(data)
    values: list[dict[str, Any]] = []
    panels: dict[str, Mapping[str, npt.NDArray[np.floating]]] = {}
    rows = []
    for score in scores:
        total = {kind: np.zeros(BINS, np.int64) for kind in KINDS}
        means: dict[str, list[float]] = {kind: [] for kind in KINDS}
        low: list[float] = []
        for trial, outcome in score.trials:
            if isinstance(outcome, Failure):
                continue
            run = RunFolder(request.out / RUNS / trial.name)
            if trial.config.model.features is not None:  # the model is asked about what is in the file now
                require_same_origin(run.path, outcome, origin_of(trial.config.model))
            found = test_probabilities(run, trial.config, test, make_accelerator(trial.config.engine))
            for kind, counts in histograms(found, test.evaluation_labels).items():
                total[kind] += counts
                means[kind].append(float(found[test.evaluation_labels == KINDS[kind]].mean()))
                values += _bins(score.name, trial.seed, kind, counts)
            low.append(100 * float((found[test.evaluation_labels == 1] < 0.5).mean()))
        panels[score.name] = {kind: density(counts) for kind, counts in total.items()}
        cells = [mean_and_spread(means[kind], 3) for kind in KINDS]
        rows.append([score.name, score.shown("mAP"), *cells, mean_and_spread(low, 1)])
    columns = ["mean probability of positives", "of negatives", "positives below 0.5, %"]
    return Sheet(
        headings=[*request.target.headings, "test mAP", *columns],
        rows=rows,
        notes=[request.target.remark],
        values=values or [dict.fromkeys(("method", "seed", "kind", "from", "to", "count", "density"), NOTHING)],
        picture=pictures.distributions(panels, title=pictures.title_of(request)),
        outcomes=outcomes_of(scores),
        made=made_of(scores),
    )


def _bins(method: str, seed: int, kind: str, counts: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    edges = [place / BINS for place in range(BINS + 1)]
    return [
        {"method": method, "seed": seed, "kind": kind, "from": low, "to": high, "count": int(count), "density": float(share)}
        for low, high, count, share in zip(edges[:-1], edges[1:], counts, density(counts), strict=True)
    ]
