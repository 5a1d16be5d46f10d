"""Scores and pseudo-labels of a batch of images.

| symbol        | argument          | meaning                                                  |
| ------------- | ----------------- | -------------------------------------------------------- |
| s^global      | global_scores     | softmax over the classes, of the whole image             |
| s^local_z     | local_scores      | the same for each of R tiles                             |
| tau           | temperature       | softmax temperature on cosines                           |
| nu            | local_threshold   | score at which a class's best tile is trusted            |
| zeta^global   | global_threshold  | least score of a positive pseudo-label                   |
| k             | top_k             | most positive pseudo-labels per image                    |
| Delta_neg     | negative_fraction | share of classes that become negative                    |
"""

import math

from torch import Tensor, cat, int8


def scores(embeddings: Tensor, classes: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Return (global [N, C], local [N, R, C]): softmax over the classes of cosines / temperature.

    `embeddings` [N, 1 + R, K] and `classes` [C, K] have unit length; the first view is the whole image.
    """
    all_views = (embeddings.to(classes.dtype) @ classes.T / temperature).softmax(-1)
    return all_views[:, 0], all_views[:, 1:]


def pseudo_labels(
    global_scores: Tensor,
    local_scores: Tensor,
    observed: Tensor,
    *,
    local_threshold: float,
    global_threshold: float,
    top_k: int,
    negative_fraction: float,
    agreed: bool = False,
    released_code: bool = False,
) -> Tensor:
    """Return pseudo-labels, int8 [N, C] in {1, 0, -1}, from global_scores [N, C], local_scores [N, R, C] and observed [N, C].

    1: among the top_k of the final scores (`final_scores`), and at least global_threshold. -1: among the
    floor(negative_fraction * C) lowest of the average scores or, with `agreed`, among as many lowest in every single view; -1
    takes precedence over 1. Ties go to the lower class index.
    `released_code` follows the authors' code: > in place of >=, 0 in place of -1, a local threshold of 0 where nothing is
    observed.
    """
    final, average = final_scores(
        global_scores, local_scores, observed, local_threshold=local_threshold, released_code=released_code
    )
    labels = (rank(final, descending=True) < top_k) & (final >= global_threshold)
    count = lowest_count(negative_fraction, average.shape[1])
    lowest = rank(average, descending=False) < count
    if agreed:
        views = cat([global_scores.unsqueeze(1), local_scores], dim=1)
        lowest = (rank(views, descending=False) < count).all(1)
    return labels.to(int8).masked_fill(lowest, 0 if released_code else -1)


def final_scores(
    global_scores: Tensor,
    local_scores: Tensor,
    observed: Tensor,
    *,
    local_threshold: float,
    released_code: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return (final [N, C], average [N, C]): final scores select positive pseudo-labels, average scores negative ones.

    The aggregated local score of a class is that of its best tile if that reaches the local threshold (lowered to the whole
    image's score of an observed positive), else that of its worst tile. Final is the mean of global and aggregated score, average
    the mean of global and average local score.
    """
    best, worst = local_scores.amax(1), local_scores.amin(1)
    positive = observed == 1
    shown = global_scores.masked_fill(~positive, -math.inf).amax(1, keepdim=True)  # -inf: nothing observed
    unseen = 0.0 if released_code else local_threshold
    threshold = shown.clamp_max(local_threshold).masked_fill(~positive.any(1, keepdim=True), unseen)
    trusted = best > threshold if released_code else best >= threshold
    return (global_scores + best.where(trusted, worst)) / 2, (global_scores + local_scores.mean(1)) / 2


def lowest_count(negative_fraction: float, classes: int) -> int:
    """Return the number of classes that become negative."""
    return math.floor(negative_fraction * classes + 1e-9)


def rank(values: Tensor, *, descending: bool) -> Tensor:
    """Return the rank 0..C-1 of each class along the last axis; equal values keep the order of their indices."""
    return values.argsort(dim=-1, descending=descending, stable=True).argsort(dim=-1)
