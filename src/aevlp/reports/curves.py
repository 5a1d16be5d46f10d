"""Histograms, precision-recall curves and reliability: many probabilities aggregated into what a chart needs."""

import numpy as np
import numpy.typing as npt
from sklearn.metrics import precision_recall_curve

from aevlp.data.dataset import Labels
from aevlp.reports.evidence import Counts, Curve
from aevlp.training.calibration import Calibration, Reliability, reliability

Floats = npt.NDArray[np.floating]

BINS = 50  # of a histogram over 0..1
POINTS = 100  # of a curve, at most
CURVES = 5  # of the best and of the worst classes each
CELLS = 4_000_000  # that reliability is measured on, at most: more would not change the chart


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
