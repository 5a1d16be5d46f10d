"""Agreement of opinions about labels with the observed tags: regressions of tags, weights of opinions, soft labels.

[sources/consensus.py](../sources/consensus.py) says what they are for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_softmax, logsumexp, softmax, xlogy
from threadpoolctl import threadpool_limits
from torch import Tensor

from aevlp.core.chunks import slices_of
from aevlp.data.dataset import Labels, evenly_spread
from aevlp.data.regression import positive_weight_by_scores

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]
Floats = NDArray[np.floating]
RIDGE = 1.0  # penalty, in units of the mean variance of a feature
UNTAGGED_WEIGHT = 0.7  # of each opinion where no tag can tell them apart
OFFSET_PENALTY = 1.0  # on a class's own offset, squared; with few tags it stays near 0
FEWEST_RANDOM_TAGS, MOST_RANDOM_TAGS = 0.1, 0.9  # shares: fewer are not told from none
NO_RANDOM_TAGS = 1e-6  # 0 would let a single tag weigh without limit
FITTED_ON = 10_000  # images at most
FEWEST_TO_FIND = 0.01  # labels per image: where nearly all are known, the rest is not certain
FLOOR = 0.05  # least score or prediction, in units of 1 / C: a logarithm must not follow noise near 0
CHUNK = 4096  # images, whose vectors are in float64 at a time
CELLS = 2**18  # likewise


class TagRegression:
    """A ridge regression of tags [N, C] on vectors [N, D] that predicts each image without its own tag."""

    def __init__(self, vectors: Tensor, tags: Tensor) -> None:
        fitted = tags.any(1).nonzero().squeeze(1)
        count, (width, classes) = max(len(fitted), 1), (vectors.shape[1], tags.shape[1])
        total, gram = torch.zeros(width, dtype=torch.float64), torch.zeros(width, width, dtype=torch.float64)
        cross = torch.zeros(width, classes, dtype=torch.float64)
        for rows in torch.split(fitted, CHUNK):
            total += vectors[rows].double().sum(0)
        self.mean, self.centre = total / count, tags.sum(0, dtype=torch.float64) / count
        for rows in torch.split(fitted, CHUNK):
            x = vectors[rows].double() - self.mean
            gram += x.T @ x
            cross += x.T @ (tags[rows].double() - self.centre)
        penalty = RIDGE * float(gram.diagonal().mean())
        gram.diagonal().add_(penalty if penalty > 0 else 1.0)  # 0: all vectors are equal
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(gram))
        self.weights = self.inverse @ cross

    def __call__(self, vectors: Tensor, own: Tensor, tags: Tensor) -> Tensor:
        """Return predictions [B, V, C] for vectors [B, V, D] of images whose vectors in the fit were `own` [B, D]."""
        x, o = vectors.double() - self.mean, own.double() - self.mean
        influence = o @ self.inverse
        leverage = (influence * o).sum(1, keepdim=True)
        error = tags.any(1, keepdim=True) * (tags - self.centre - o @ self.weights) / (1 - leverage)
        found: Tensor = x @ self.weights + self.centre - (x @ influence.unsqueeze(2)) * error.unsqueeze(1)
        return found

    def of_others(self, vectors: Tensor) -> Tensor:
        """Return predictions [B, V, C] for vectors [B, V, D] of images that are not in the fit."""
        found: Tensor = (vectors.double() - self.mean) @ self.weights + self.centre
        return found

    def of_fitted(self, vectors: Tensor, tags: Tensor) -> Tensor:
        """Return predictions float32 [N, C] for the images of the fit themselves."""
        found = torch.empty(tags.shape)
        for table, own, tag in zip(*(torch.split(each, CHUNK) for each in (found, vectors, tags)), strict=True):
            table[:] = self(own.unsqueeze(1), own, tag).squeeze(1)
        return found


def opinion(scores: Tensor) -> Singles:
    """Return the logarithm of scores [N, C] that are shares of 1."""
    found: Singles = scores.float().clamp(min=FLOOR / scores.shape[1]).log_().numpy()
    return found


@dataclass(frozen=True)
class Agreement:
    """The weights [K] of opinions, the offsets [C] of classes and the share of random tags that make the tags most likely."""

    weights: Doubles
    offsets: Doubles
    random_tags: float = 0.0
    """Share of the tags that are as good as drawn at random from all classes."""

    def __call__(self, opinions: Sequence[Floats]) -> Singles:
        """Return the log-odds z [N, C] of opinions [N, C] each, up to one number."""
        z = np.empty(opinions[0].shape, np.float32)
        for rows in slices_of(len(z), CHUNK):
            z[rows] = np.tensordot(self.weights, np.stack([opinion[rows] for opinion in opinions]), 1) + self.offsets
        return z


def fit_agreement(opinions: Sequence[Floats], tags: Floats) -> Agreement:
    """Fit an agreement to tags [N, C], whose rows sum to 1 or, without a tag, to 0; opinions are [N, C] each.

    P(tag = c) = (1 - e) softmax_c(z) + e / C, with weights >= 0 and the share e of random tags, which would otherwise be held
    against the opinions. A small e is none: tags that are right but hard to tell look like that. Without any tag, all opinions
    count alike.
    """
    count, classes = len(opinions), tags.shape[1]
    rows = np.flatnonzero(tags.any(1))
    if not len(rows):
        return Agreement(np.full(count, UNTAGGED_WEIGHT), np.zeros(classes))
    rows = rows[evenly_spread(len(rows), FITTED_ON)]
    x, y = np.stack([opinion[rows] for opinion in opinions]).astype(np.float64), tags[rows].astype(np.float64)

    def objective(parameters: Doubles) -> tuple[float, Doubles]:
        weights, offsets, random = parameters[:count], parameters[count:-1], parameters[-1]
        q = softmax(np.tensordot(weights, x, 1) + offsets, axis=1)
        mixed = (1 - random) * q + random / classes
        value = -xlogy(y, mixed).sum() + OFFSET_PENALTY * (offsets**2).sum()
        told = y * (1 - random) * q / mixed  # the part of each tag that is not random
        error = q * told.sum(1, keepdims=True) - told
        slope = (y * (q - 1 / classes) / mixed).sum()
        gradient = np.concatenate([(x * error).sum((1, 2)), error.sum(0) + 2 * OFFSET_PENALTY * offsets, [slope]])
        return value / len(rows), gradient / len(rows)

    def fitted(most: float) -> Doubles:
        start = np.concatenate([np.full(count, 1 / count), np.zeros(classes), [most / 10]])
        bounds = [(0.0, None)] * count + [(None, None)] * classes + [(NO_RANDOM_TAGS, most)]
        with threadpool_limits(1):  # the vectors are short: threads would only wait for each other
            found: Doubles = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return found

    found = fitted(MOST_RANDOM_TAGS)
    if found[-1] >= FEWEST_RANDOM_TAGS:
        return Agreement(found[:count], found[count:-1], float(found[-1]))
    found = fitted(NO_RANDOM_TAGS)
    return Agreement(found[:count], found[count:-1])


def agreed_log_odds(opinions: Sequence[Floats], tags: Floats) -> tuple[Singles, Agreement]:
    """Return the log-odds z [N, C] of opinions [N, C] each, up to one number, and the agreement of the classes with tags.

    The first opinion alone speaks for classes that are no image's tag: the others have learnt from tags. Its odds against all
    classes with tags are kept.
    """
    seen = tags.any(0) | (not tags.any())
    if seen.all():
        fitted = fit_agreement(opinions, tags)
        return fitted(opinions), fitted
    told = [opinion[:, seen] for opinion in opinions]
    fitted, alone = fit_agreement(told, tags[:, seen]), fit_agreement(told[:1], tags[:, seen])
    z = np.empty(tags.shape, np.float32)
    z[:, seen] = fitted(told)
    shift = logsumexp(z[:, seen], axis=1) - logsumexp(alone(told[:1]), axis=1)
    z[:, ~seen] = alone.weights[0] * opinions[0][:, ~seen] + shift[:, None]
    return z, fitted


def tag_beliefs(z: Floats, observed: Labels, random_tags: float) -> Singles:
    """Return the probability that each observed positive is not a random tag, [N, C]; 0 elsewhere.

    By log-odds z [N, C] it is (1 - e) q / ((1 - e) q + e / C) with q = softmax(z).
    """
    found: Singles = (observed == 1).astype(np.float32)
    if random_tags == 0:
        return found
    odds = np.log1p(-random_tags) - np.log(random_tags / z.shape[1])
    for rows in slices_of(len(z), CHUNK):
        found[rows] *= expit(log_softmax(z[rows].astype(np.float64), axis=1) + odds)
    return found


def soft_labels(z: Floats, observed: Labels, expected_positives: float, tags: Singles) -> Singles:
    """Return the belief sigmoid(z - t) in unknown labels, [N, C]; that of `tags` [N, C] in observed positives, 0 in negatives.

    t makes its sum what is left of `expected_positives` per image after the believed tags, but at most half of the unknown
    labels.
    """
    unknown, soft = observed == 0, tags.copy()
    cells = z[unknown]
    if not len(cells):
        return soft
    left = max(expected_positives * len(observed) - float(soft.sum(dtype=np.float64)), FEWEST_TO_FIND * len(observed))
    share = min(left / len(cells), 0.5)
    low, high = float(cells.min()) - 50, float(cells.max()) + 50  # nearly all labels are there, and nearly none
    parts = [cells[part] for part in slices_of(len(cells), CELLS)]

    def surplus(t: float) -> float:
        return float(sum(expit(part.astype(np.float64) - t).sum() for part in parts)) / len(cells) - share

    shift = brentq(surplus, low, high)
    for part in parts:  # in place: all cells at once in float64 would be several tables of the whole set
        part[:] = expit(part.astype(np.float64) - shift)
    soft[unknown] = cells
    return soft


def found_labels(z: Floats, observed: Labels) -> Labels:
    """Return 1 for the unknown labels with the greatest log-odds z [N, C], as many as the observed ones let one expect."""
    rows = evenly_spread(len(z), FITTED_ON)
    known, unknown = observed[rows], observed == 0
    per_image = (positive_weight_by_scores(z[rows, :, None], known).sum() - (known == 1).sum()) / len(rows)
    cells = z[unknown]
    count = min(max(round(per_image * len(z)), 0), len(cells))
    found: Labels = np.zeros(z.shape, np.int8)
    if count:
        least = np.partition(cells, len(cells) - count)[len(cells) - count]
        chosen = cells > least
        chosen[np.flatnonzero(cells == least)[: count - int(chosen.sum())]] = True  # of equals, the first
        found[unknown] = chosen
    return found
