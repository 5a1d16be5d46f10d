"""The losses as sums over cells in plain Python, written from the formulas."""

from math import exp, log


def sigmoid(z: float) -> float:
    return 1 / (1 + exp(-z))


def gr_cell(p, y, w, b, mu, sigma, q1, q2):
    if y == 1:
        return -log(p)
    if y == -1:
        return -log(1 - p)
    k = sigmoid(w * p + b)
    v = exp(-((p - mu) ** 2) / (2 * sigma**2))
    return v * ((1 - k) * (1 - (1 - p) ** q1) / q1 + k * (1 - p**q2) / q2)


def gpr_cell(p, y, label, w, b, mu, sigma, q1, q2, q3, lambda1, lambda2):
    if y != 0 or label == 0:
        return gr_cell(p, y, w, b, mu, sigma, q1, q2)
    v = exp(-((p - mu) ** 2) / (2 * sigma**2))
    if label == -1:
        return v * -log(1 - p)
    return min(max(1 - v, lambda1), lambda2) * (-(1 - q3) * log(1 - p) - q3 * log(p))


def mean_of_cells(cell, logits, observed, *rest):
    cells = [
        cell(sigmoid(z), y, *more)
        for rows in zip(logits.tolist(), observed.tolist(), *(r.tolist() for r in rest), strict=True)
        for z, y, *more in zip(*rows, strict=True)
    ]
    return sum(cells) / len(cells)


def gr(logits, observed, **options):
    return mean_of_cells(lambda p, y: gr_cell(p, y, **options), logits, observed)


def gpr(logits, observed, pseudo, *, eta, expected_positives, **options):
    mean = mean_of_cells(lambda p, y, label: gpr_cell(p, y, label, **options), logits, observed, pseudo)
    predicted = sum(sigmoid(z) for row in logits.tolist() for z in row) / len(logits)
    return mean + eta * ((predicted - expected_positives) / logits.shape[1]) ** 2


def an(logits, observed):
    return mean_of_cells(lambda p, y: -log(p) if y == 1 else -log(1 - p), logits, observed)
