"""How many positives a set of images has where only some of their labels are observed.

An observed label is one of its image's n positives, of which m were observed: it stands for n / m labels. So every sum over the
true positives can be estimated by the same sum over the observed ones, each with that mass. n is not known either: it is what the
classifier finds in the image with thresholds that follow from the masses, found by repetition.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
Labels = npt.NDArray[np.int8]
ROUNDS = 8  # it has settled long before, or swings between two near-by states


def positive_mass(observed: Labels, per_image: Floats, expected_positives: float | None = None) -> npt.NDArray[np.float64]:
    """Float64 [N, C]: for how many true positives each cell stands, for observed [N, C] of images with per_image [N] positives.

    `expected_positives` per image, where it is known, sets the mean over the images that have an observed label.
    """
    found = (observed == 1).astype(np.float64)
    several = found.sum(1)
    mass: npt.NDArray[np.float64] = found * (np.maximum(per_image, several) / np.maximum(several, 1))[:, None]
    if expected_positives is not None and mass.any():
        mass *= expected_positives * np.count_nonzero(several) / mass.sum()
    return mass


def telling(observed: Labels) -> npt.NDArray[np.bool_]:
    """Bool [N]: which images tell how many positives there are.

    Those with an observed positive do, and those of which every label is known. Of the others nothing is known, which is no
    reason to count what is found in them as wrong.
    """
    tells: npt.NDArray[np.bool_] = (observed == 1).any(1) | (observed != 0).all(1)
    return tells


def observed_like(observed: Labels, truth: Labels, rng: np.random.Generator) -> Labels:
    """Int8 [M, C]: fully labelled images [M, C] as if they had been observed like others [N, C].

    Each shows as many of its positives, drawn at random, as a random one of the others does.
    """
    shown = rng.choice((observed == 1).sum(1), size=len(truth))
    keys = np.where(truth == 1, rng.random(truth.shape), np.inf)
    place = keys.argsort(1).argsort(1)
    drawn: Labels = ((truth == 1) & (place < shown[:, None])).astype(np.int8)
    return drawn


def estimated_mass(
    observed: Labels, found: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.bool_]], expected_positives: float | None = None
) -> npt.NDArray[np.float64]:
    """The mass of observed labels [N, C], where `found` says for a mass which labels [N, C] would be found with it."""
    mass = positive_mass(observed, np.full(len(observed), expected_positives or 1.0), expected_positives)
    for _ in range(ROUNDS):
        per_image = ((found(mass) & (observed == 0)) | (observed == 1)).sum(1)  # a confirmed negative is none
        before, mass = mass, positive_mass(observed, per_image, expected_positives)
        if np.array_equal(before, mass):
            break
    return mass
