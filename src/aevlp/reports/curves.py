"""What a report draws of many probabilities, aggregated before anything is drawn: histograms and precision-recall curves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aevlp.data.table import Labels
from aevlp.training.calibration import Calibration, Reliability, reliability

Floats = npt.NDArray[np.floating]
Counts = npt.NDArray[np.int64]

BINS = 50  # of a histogram over 0..1
POINTS = 100  # of a curve, at most
CURVES = 5  # of the best and of the worst classes each
CELLS = 4_000_000  # that reliability is measured on, at most: more change nothing that can be seen


@dataclass(frozen=True)
class Curve:
    """The precision-recall curve of a class."""

    label: str
    ap: float  # percent
    points: tuple[tuple[float, float], ...]  # recall, precision; recall rises
    chosen: tuple[float, float] | None  # where the threshold is; None: no label is given


def histograms(probabilities: Floats, labels: Labels, groups: list[npt.NDArray[np.intp]]) -> Counts:
    """Int64 [G, 2, BINS]: how many positives (and others) of each group of columns have which probability."""
    per_class = np.zeros((labels.shape[1], 2, BINS), np.int64)
    for column in range(labels.shape[1]):
        place = np.minimum((probabilities[:, column] * BINS).astype(np.intp), BINS - 1)
        there = labels[:, column] == 1
        per_class[column] = [np.bincount(place[which], minlength=BINS) for which in (there, ~there)]
    return np.stack([per_class[group].sum(0) for group in groups])


def extremes(ap: Floats) -> tuple[list[int], list[int]]:
    """(columns of the best classes, of the worst ones, best first each) by average precision [C]; NaN is left out."""
    order = [int(c) for c in np.argsort(-ap, kind="stable") if np.isfinite(ap[c])]
    count = min(CURVES, (len(order) + 1) // 2)
    return order[:count], order[count:][-count:]


def precision_recall(probabilities: Floats, there: npt.NDArray[np.bool_], threshold: float, *, label: str, ap: float) -> Curve:
    """The curve of a class from probabilities [N] and whether it is there [N]."""
    from sklearn.metrics import precision_recall_curve

    precision, recall, _ = precision_recall_curve(there, probabilities)
    points = list(zip(recall[::-1].tolist(), precision[::-1].tolist(), strict=True))
    step = max(1, -(-len(points) // POINTS))
    given = probabilities >= threshold
    hits, claims = int((given & there).sum()), int(given.sum())
    chosen = (hits / int(there.sum()), hits / claims) if claims else None
    return Curve(label, ap, (*points[:-1:step], points[-1]), chosen)


def calibrated(probabilities: Floats, labels: Labels, calibration: Calibration | None) -> tuple[Reliability, Reliability | None]:
    """(reliability of the probabilities [N, C], of the calibrated ones) against labels [N, C], of evenly spread images."""
    rows = slice(None, None, -(-probabilities.size // CELLS) or 1)
    p, there = probabilities[rows], labels[rows] == 1
    return reliability(p, there), None if calibration is None else reliability(calibration(p), there)
