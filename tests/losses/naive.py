"""The losses as sums over cells in plain Python, written from the formulas."""

from math import exp, log


def sigmoid(z: float) -> float:
    return 1 / (1 + exp(-z))


def cross_entropy(p, target):
    return -target * log(p) - (1 - target) * log(1 - p)


def entropy(p):
    return cross_entropy(p, p)


def rows_of(*tensors):
    """[[(z, y, ...), ...], ...]: each cell's values, by row and class."""
    return [list(zip(*rows, strict=True)) for rows in zip(*(t.tolist() for t in tensors), strict=True)]


def mean_of_cells(cell, logits, observed, *rest):
    """Mean of cell(p, y, ...), where a confirmed negative costs its cross-entropy whatever the loss."""
    costs = [
        -log(1 - sigmoid(z)) if y == -1 else cell(sigmoid(z), y, *more)
        for row in rows_of(logits, observed, *rest)
        for z, y, *more in row
    ]
    return sum(costs) / len(costs)


def surplus(probabilities, expected_positives):
    rows, classes = len(probabilities), len(probabilities[0])
    return ((sum(map(sum, probabilities)) / rows - expected_positives) / classes) ** 2


def probabilities(logits):
    return [[sigmoid(z) for z in row] for row in logits.tolist()]


def an(logits, observed):
    return mean_of_cells(lambda p, y: -log(p) if y == 1 else -log(1 - p), logits, observed)


def an_ls(logits, observed, *, smoothing):
    return mean_of_cells(lambda p, y: cross_entropy(p, 1 - smoothing if y == 1 else smoothing), logits, observed)


def wan(logits, observed):
    others = logits.shape[1] - 1
    return mean_of_cells(lambda p, y: -log(p) if y == 1 else -log(1 - p) / others, logits, observed)


def epr(logits, observed, *, expected_positives):
    mean = mean_of_cells(lambda p, y: -log(p) if y == 1 else 0, logits, observed)
    return mean + surplus(probabilities(logits), expected_positives)


def gr_cell(p, y, w, b, mu, sigma, q1, q2):
    if y == 1:
        return -log(p)
    k = sigmoid(w * p + b)
    v = exp(-((p - mu) ** 2) / (2 * sigma**2))
    return v * ((1 - k) * (1 - (1 - p) ** q1) / q1 + k * (1 - p**q2) / q2)


def gr(logits, observed, **options):
    return mean_of_cells(lambda p, y: gr_cell(p, y, **options), logits, observed)


def gpr(logits, observed, pseudo, *, q3, lambda1, lambda2, eta, expected_positives, lambda3=1, **options):
    def cell(p, y, label):
        if y == 1 or label == 0:
            return gr_cell(p, y, **options)
        v = exp(-((p - options["mu"]) ** 2) / (2 * options["sigma"] ** 2))
        if label == -1:
            return lambda3 * v * -log(1 - p) + (1 - lambda3) * gr_cell(p, y, **options)
        return min(max(1 - v, lambda1), lambda2) * cross_entropy(p, q3)

    return mean_of_cells(cell, logits, observed, pseudo) + eta * surplus(probabilities(logits), expected_positives)


def em(logits, observed, *, alpha):
    return mean_of_cells(lambda p, y: -log(p) if y == 1 else -alpha * entropy(p), logits, observed)


def em_apl(logits, observed, soft_negative, *, alpha, beta):
    def cell(p, y, s):
        if y == 1:
            return -log(p)
        return beta * cross_entropy(p, s) if s >= 0 else -alpha * entropy(p)

    return mean_of_cells(cell, logits, observed, soft_negative)


def vlpl(logits, observed, pseudo, *, alpha, beta_pos):
    def cell(p, y, label):
        if y == 1:
            return -log(p)
        return beta_pos * cross_entropy(p, 0.9) if label == 1 else -alpha * entropy(p)

    return mean_of_cells(cell, logits, observed, pseudo)


def bce(logits, observed, pseudo):
    return mean_of_cells(lambda p, y, label: -log(p) if 1 in (y, label) else -log(1 - p), logits, observed, pseudo)


def role(logits, observed, estimated, *, expected_positives):
    def cell(z, y, t):
        p = sigmoid(z)
        if y == -1:
            return -log(1 - p) - log(1 - t)
        confirmed = -log(p) - log(t) if y == 1 else 0
        return (confirmed + cross_entropy(p, t) + cross_entropy(t, p)) / 2

    costs = [cell(*values) for row in rows_of(logits, observed, estimated) for values in row]
    both = surplus(probabilities(logits), expected_positives) + surplus(estimated.tolist(), expected_positives)
    return sum(costs) / len(costs) + both / 2


def large(logits, observed, count):
    """The cells (row, class) that count as large."""
    losses = {
        (n, c): -log(1 - sigmoid(z)) if y == 0 else 0
        for n, row in enumerate(rows_of(logits, observed))
        for c, (z, y) in enumerate(row)
    }
    limit = sorted(losses.values(), reverse=True)[min(count, len(losses)) - 1]
    return {cell for cell, u in losses.items() if count > 0 and u >= limit and observed[cell] == 0}


def ll_r(logits, observed, *, count):
    rejected = large(logits, observed, count)
    costs = [
        0 if (n, c) in rejected else cross_entropy(sigmoid(z), int(y == 1))
        for n, row in enumerate(rows_of(logits, observed))
        for c, (z, y) in enumerate(row)
    ]
    return sum(costs) / len(costs)


def ll_ct(logits, observed, *, count):
    corrected = observed.clone()
    for cell in large(logits, observed, count):
        corrected[cell] = 1
    return an(logits, corrected)


def splc(logits, observed, *, margin, threshold, gamma, corrects):
    def cell(p, y):
        if y == 1:
            shifted = sigmoid(log(p / (1 - p)) - margin)
            return (1 - shifted) ** gamma * -log(shifted)
        if corrects and p > threshold:
            return (1 - p) ** gamma * -log(p)
        return p**gamma * -log(1 - p)

    return mean_of_cells(cell, logits, observed)


def asl(logits, observed, *, gamma, clip):
    def cell(p, y):
        if y == 1:
            return -log(p)
        shifted = max(p - clip, 0)
        return -(shifted**gamma) * log(1 - shifted)

    return mean_of_cells(cell, logits, observed)


def smile(logits, observed, soft, *, mu, rate, expected_positives):
    prior = min(max((expected_positives - 1) / (logits.shape[1] - 1), 0), 1)

    def cell(p, y, d):
        if y == 1:
            return cross_entropy(p, mu * d + 1 - mu)
        return rate * cross_entropy(p, mu * d + (1 - mu) * prior)

    return mean_of_cells(cell, logits, observed, soft)


def soft_gpr(logits, observed, soft, *, lambda1, lambda2, eta, expected_positives, **robust):
    def cell(p, y, k):
        v = exp(-((p - robust["mu"]) ** 2) / (2 * robust["sigma"] ** 2))
        positive = -log(p) if y == 1 else min(max(1 - v, lambda1), lambda2) * -log(p)
        return k * positive + (1 - k) * gr_cell(p, 0, **robust)

    unbelieved = [
        [0.0 if y == -1 else k for y, k in zip(*rows, strict=True)] for rows in zip(observed.tolist(), soft.tolist(), strict=True)
    ]
    costs = [
        cell(sigmoid(z), y, k)
        for row in zip(logits.tolist(), observed.tolist(), unbelieved, strict=True)
        for z, y, k in zip(*row, strict=True)
    ]
    return sum(costs) / len(costs) + eta * surplus(probabilities(logits), expected_positives)


NAIVE = {
    "full": an,
    "an": an,
    "an-ls": an_ls,
    "wan": wan,
    "epr": epr,
    "gr": gr,
    "gpr": gpr,
    "em": em,
    "em-apl": em_apl,
    "vlpl": vlpl,
    "bce": bce,
    "role": role,
    "ll-r": ll_r,
    "splc": splc,
    "asl": asl,
    "smile": smile,
    "soft-gpr": soft_gpr,
}

ROBUST = {
    "w0": 3.0,
    "w1": 10.0,
    "b0": -1.0,
    "b1": -8.0,
    "mu0": 0.2,
    "mu1": 0.6,
    "sigma0": 0.8,
    "sigma1": 0.3,
    "q1": 1.5,
    "q2": 0.4,
    "schedule_epochs": 5,
}
OTHER_OPTIONS = {
    "an-ls": {"smoothing": 0.3},
    "gr": ROBUST,
    "gpr": {**ROBUST, "q3": 0.7, "lambda1": 0.2, "lambda2": 0.8, "lambda3": 0.4, "eta": 0.3},
    "em": {"alpha": 1.7},
    "em-apl": {"alpha": 1.7, "beta": 0.9},
    "vlpl": {"alpha": 1.7, "beta_pos": 0.4},
    "ll-r": {"delta": 0.08},
    "splc": {"margin": 0.4, "threshold": 0.8, "gamma": 0.5},
    "asl": {"gamma": 0.5, "clip": 0.0},
    "smile": {"mu": 0.2, "rate": 1.3},
    "soft-gpr": {**ROBUST, "lambda1": 0.2, "lambda2": 0.8, "eta": 0.3},
}
