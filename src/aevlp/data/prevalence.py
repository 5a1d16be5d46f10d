"""Estimates of the number of positives in images of which only some labels are observed.

Suppose that m of an image's n positives are observed. Each observed label then stands for n / m positives: its *positive weight*.
Any sum over the true positives is estimated by the same sum over the observed ones, with these weights. n is not known either.
It is the number of labels that count as found in the image, by a rule that depends on the weights (`found`); a few rounds of
repetition find both.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from aevlp.data.dataset import Labels

Floats = npt.NDArray[np.floating]
DRAWS = 20  # of the labels that fully labelled images show
MOST_WEIGHT = 5.0  # of an image that imitates others, and 1 / its least: a few images must not stand for all
ROUNDS = 8  # it settles long before, or alternates between two states that are close to each other


def positive_weight(observed: Labels, per_image: Floats, expected_positives: float | None = None) -> npt.NDArray[np.float64]:
    """Return float64 [N, C]: the number of true positives that each cell stands for.

    `observed` [N, C] are the labels of images with `per_image` [N] positives. `expected_positives`, if known, sets the mean
    number of positives over the images that have an observed positive.
    """
    is_positive = (observed == 1).astype(np.float64)
    count = is_positive.sum(1)
    weight: npt.NDArray[np.float64] = is_positive * (np.maximum(per_image, count) / np.maximum(count, 1))[:, None]
    if expected_positives is not None and weight.any():
        weight *= expected_positives * np.count_nonzero(count) / weight.sum()
    return weight


def estimated_positive_weight(
    observed: Labels, found: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.bool_]], expected_positives: float | None = None
) -> npt.NDArray[np.float64]:
    """Return the positive weight [N, C] of observed labels [N, C]; `found` returns the labels [N, C] found with a weight."""
    weight = positive_weight(observed, np.full(len(observed), expected_positives or 1.0), expected_positives)
    for _ in range(ROUNDS):
        per_image = ((found(weight) & (observed == 0)) | (observed == 1)).sum(1)  # confirmed negatives do not count
        before, weight = weight, positive_weight(observed, per_image, expected_positives)
        if np.array_equal(before, weight):
            break
    return weight


def informative_rows(observed: Labels) -> npt.NDArray[np.bool_]:
    """Return bool [N]: the images that carry information about the number of positives.

    These are the images with an observed positive and those with every label known. Nothing is known about the positives of the
    others, so labels found in them must not count as wrong.
    """
    informative: npt.NDArray[np.bool_] = (observed == 1).any(1) | (observed != 0).all(1)
    return informative


def observed_like(observed: Labels, truth: Labels, rng: np.random.Generator) -> Labels:
    """Return int8 [M, C]: fully labelled images [M, C] with as few observed labels as other images [N, C] have.

    Each keeps as many of its positives, drawn at random, as a random one of the others has.
    """
    shown = rng.choice((observed == 1).sum(1), size=len(truth))
    keys = np.where(truth == 1, rng.random(truth.shape), np.inf)
    place = keys.argsort(1).argsort(1)
    drawn: Labels = ((truth == 1) & (place < shown[:, None])).astype(np.int8)
    return drawn


def hidden_like(
    observed: Labels, truth: Labels, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return (hidden, unknown), float64 [M, C]: fully labelled images [M, C] imitate the images [N, C] that are observed in part.

    Each of several draws shows some of an image's positives (`observed_like`). `hidden` weighs the positives and `unknown` all
    cells that are not shown, averaged over the draws. A draw's weight makes each class as frequent among the shown labels as
    among the observed ones: of photos collected class by class, few have the most common class as their label. An image
    without a positive cannot pass for one with an observed label; its weight is then 0.
    """
    draws = [observed_like(observed, truth, rng) == 1 for _ in range(DRAWS)]
    wanted, found = (observed == 1).sum(0) + 0.5, np.mean([shown.sum(0) for shown in draws], axis=0) + 0.5
    ratio = np.clip((wanted / wanted.sum()) / (found / found.sum()), 1 / MOST_WEIGHT, MOST_WEIGHT)
    hidden, unknown = np.zeros(truth.shape), np.zeros(truth.shape)
    alone = np.where((truth == 1).any(1), 1.0, float((~(observed == 1).any(1)).mean()))  # weight of an image that shows nothing
    for shown in draws:
        count = shown.sum(1)
        weight = np.where(count > 0, (shown * ratio).sum(1) / np.maximum(count, 1), alone)[:, None] / DRAWS
        hidden += weight * ((truth == 1) & ~shown)
        unknown += weight * ~shown
    return hidden, unknown
