"""The collection of a run's evidence when its training ends: many probabilities aggregated into what the charts need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from sklearn.metrics import precision_recall_curve

from aevlp.core.seeds import seed_for
from aevlp.data.dataset import Labels
from aevlp.reports.evidence import Counts, Curve, Evidence, ExampleGrid, Values
from aevlp.reports.examples import Floats, SplitPredictions, example_grid, teacher_grid
from aevlp.sources.damp import Damp
from aevlp.training.calibration import Calibration, Reliability, reliability
from aevlp.training.evaluate import ranking_metrics

if TYPE_CHECKING:  # their modules import half of the package
    from aevlp.training.finalize import FinalEvaluation
    from aevlp.training.run import TrainedRun

SAMPLE = 1000  # training images that are predicted again, at most
THIRDS = 6  # classes from which on the best and the worst third have histograms of their own
BINS = 50  # of a histogram over 0..1
POINTS = 100  # of a curve, at most
CURVES = 5  # of the best and of the worst classes each
CELLS = 4_000_000  # that reliability is measured on, at most: more would not change the chart


def collect_evidence(trained: TrainedRun, final: FinalEvaluation) -> Evidence:
    """Return the evidence of a finished training, the same in every process; all of them call it together.

    The model predicts at most `SAMPLE` training images again, drawn by the run's seed.
    """
    setup, split = trained.setup, final.split
    train, classes = setup.data.train, setup.data.classes
    thresholds = np.array(list(final.thresholds.classes.values()))
    metrics = ranking_metrics(final.probabilities, split.evaluation_labels, classes)
    ap = np.array([np.nan if value is None else value for value in metrics.per_class_AP.values()])
    is_complete = split.truth is not None
    evaluated = SplitPredictions(split.paths, classes, split.evaluation_labels, is_complete, final.probabilities, thresholds)
    predicted, positive = evaluated.predicted, evaluated.positive

    def curves(columns: list[int]) -> tuple[Curve, ...]:
        return tuple(
            precision_recall(final.probabilities[:, c], positive[:, c], thresholds[c], label=classes[c], ap=float(ap[c]))
            for c in columns
        )

    best, worst = extremes(ap)
    generator = np.random.default_rng(seed_for(setup.config.run.seed, "report"))
    rows = np.sort(generator.permutation(len(train.names))[:SAMPLE])
    part = train.part(rows)
    again = trained.predict(part)
    sample = SplitPredictions(part.paths, classes, part.evaluation_labels, part.truth is not None, again, thresholds)
    return Evidence(
        classes=tuple(classes),
        split=split.name,
        is_complete=is_complete,
        images=len(split.names),
        sample=len(rows),
        observed_per_image=float((train.observed == 1).sum(1).mean()),
        thresholds=thresholds,
        ap=ap,
        support=positive.sum(0),
        given=predicted.sum(0),
        hits=(predicted & positive).sum(0),
        observed=(train.observed == 1).sum(0),
        histograms=histograms(final.probabilities, split.evaluation_labels, _groups(ap)),
        best=curves(best),
        worst=curves(worst),
        reliability=(
            calibrated(final.probabilities, split.evaluation_labels, final.thresholds.calibration) if is_complete else None
        ),
        mistaken=example_grid(evaluated, predicted & ~positive),
        missed=example_grid(evaluated, ~predicted & positive, lowest=True),
        found=example_grid(sample, sample.predicted & (part.observed == 0)),
        teacher=_teacher(trained, sample, rows),
    )


def _groups(ap: Values) -> list[npt.NDArray[np.intp]]:
    """Return the columns of all classes and, if there are enough, of the best and the worst third by average precision."""
    order = np.array([c for c in np.argsort(-ap, kind="stable") if np.isfinite(ap[c])], np.intp)
    third = len(order) // 3
    return [np.arange(len(ap)), *([order[:third], order[-third:]] if len(order) >= THIRDS else [])]


def _teacher(trained: TrainedRun, sample: SplitPredictions, rows: npt.NDArray[np.intp]) -> ExampleGrid:
    """Return examples of the pseudo-labels, or why there are none."""
    source = trained.setup.source
    if trained.setup.config.method.loss is None:
        return ExampleGrid(reason="Nothing was trained, so there are no pseudo-labels.")
    if not isinstance(source, Damp):
        return ExampleGrid(reason="Only methods with DAMP have tiles to show.")
    if source.views.store is None:
        return ExampleGrid(reason="The teacher's scores were not stored (--store none).")
    return teacher_grid(source, sample, rows, trained.setup.data.train.observed[rows])


def histograms(probabilities: Floats, labels: Labels, groups: list[npt.NDArray[np.intp]]) -> Counts:
    """Return the number of positives and of others by probability for each group of columns, int64 [G, 2, BINS]."""
    per_class = np.zeros((labels.shape[1], 2, BINS), np.int64)
    for column in range(labels.shape[1]):
        bins = np.minimum((probabilities[:, column] * BINS).astype(np.intp), BINS - 1)
        positive = labels[:, column] == 1
        per_class[column] = [np.bincount(bins[mask], minlength=BINS) for mask in (positive, ~positive)]
    return np.stack([per_class[group].sum(0) for group in groups])


def extremes(ap: Floats) -> tuple[list[int], list[int]]:
    """Return the columns of the best and of the worst classes by average precision [C], best first; NaN is left out."""
    order = [int(c) for c in np.argsort(-ap, kind="stable") if np.isfinite(ap[c])]
    count = min(CURVES, (len(order) + 1) // 2)
    return order[:count], order[count:][-count:]


def precision_recall(probabilities: Floats, positive: npt.NDArray[np.bool_], threshold: float, *, label: str, ap: float) -> Curve:
    """Return the curve of a class from probabilities [N] and labels [N]."""
    precision, recall, _ = precision_recall_curve(positive, probabilities)
    points = list(zip(recall[::-1].tolist(), precision[::-1].tolist(), strict=True))
    step = max(1, -(-len(points) // POINTS))
    predicted = probabilities >= threshold
    hits, claims = int((predicted & positive).sum()), int(predicted.sum())
    chosen = (hits / int(positive.sum()), hits / claims) if claims else None
    return Curve(label, ap, (*points[:-1:step], points[-1]), chosen)


def calibrated(probabilities: Floats, labels: Labels, calibration: Calibration | None) -> tuple[Reliability, Reliability | None]:
    """Return the reliability of probabilities [N, C] before and after calibration, against labels [N, C].

    Of very many images, evenly spread ones are used.
    """
    rows = slice(None, None, -(-probabilities.size // CELLS) or 1)
    p, positive = probabilities[rows], labels[rows] == 1
    return reliability(p, positive), None if calibration is None else reliability(calibration(p), positive)
