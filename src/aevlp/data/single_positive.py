"""Single positives from full labels: the standard protocol of the field (Cole et al., CVPR 2021)."""

import numpy as np

from aevlp.data.table import Labels

SEED = 1200


def single_positives(labels: Labels) -> Labels:
    """One randomly kept positive per row, all else unknown; a row without a positive keeps none.

    The draw depends on every row before: give it a whole split, in order, before validation is cut off.
    """
    rng = np.random.RandomState(SEED)
    observed = np.zeros_like(labels)
    for row, kept in zip(labels, observed, strict=True):
        positives = np.flatnonzero(row == 1)
        rng.shuffle(positives)
        kept[positives[:1]] = 1
        # Thrown away, but it advances the generator: without it the draw is not the one that published results use.
        rng.shuffle(np.flatnonzero(row != 1))
    return observed
