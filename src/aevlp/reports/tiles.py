"""Examples of DAMP's pseudo-labels, with the teacher's scores of every tile."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from aevlp.damp.labels import scores
from aevlp.damp.views import decode, plan_views
from aevlp.data.dataset import Labels
from aevlp.reports.evidence import Example, ExampleGrid, Tile
from aevlp.reports.examples import Candidate, Floats, Mask, SplitPredictions, best_of_class, most_informative
from aevlp.sources.damp import Damp

POSITIVE, NEGATIVE = 6, 3  # examples, which are larger than those of other grids
EPOCH = 1  # whose views are shown: those of draw 0
Rows = npt.NDArray[np.intp]


def teacher_grid(source: Damp, split: SplitPredictions, rows: Rows, observed: Labels) -> ExampleGrid:
    """Choose pseudo-labels of the first epoch that are wrong or, without the truth, that the classifier doubts most.

    `split` and `observed` [M, C] belong to the training images `rows` [M]. All processes call it together.
    """
    pseudo = source.labels(EPOCH).numpy()[rows]
    added = (observed == 0) & (pseudo != 0)
    right = split.positive == (pseudo == 1)
    stored = _stored_rows(source, split)
    if split.is_complete:
        chosen = _chosen(split, added & ~right, pseudo, _confidence(source, stored))
    else:
        chosen = _chosen(split, added, pseudo, None)
    examples = tuple(_example(source, split, stored, pseudo, row, column) for row, column in chosen)
    return ExampleGrid(examples, int(added.sum()), int((added & right).sum()) if split.is_complete else None)


def _chosen(split: SplitPredictions, mask: Mask, pseudo: Labels, confidence: Floats | None) -> list[tuple[int, int]]:
    """Return (row, column) within the mask [M, C]: the teacher's surest labels, or those that the classifier doubts most."""
    chosen: list[tuple[int, int]] = []
    for sign, most in ((1, POSITIVE), (-1, NEGATIVE)):
        candidates: list[Candidate] = []
        for column in range(len(split.classes)):
            rank = -sign * split.margin(column) if confidence is None else sign * confidence[:, column]
            candidates += best_of_class(rank, mask[:, column] & (pseudo[:, column] == sign), column)
        chosen += most_informative(candidates, most=most)
    return chosen


def _stored_rows(source: Damp, split: SplitPredictions) -> Rows:
    """Return the rows of the images in the store, which may hold more images than are trained on."""
    row_of = {name: row for row, name in enumerate(source.views.images.names)}
    return np.array([row_of[name] for name in split.paths.names], np.intp)


def _confidence(source: Damp, stored: Rows) -> npt.NDArray[np.float32]:
    """Return the mean of the whole image's and the best tile's score, float32 [M, C]."""
    found = np.empty((len(stored), len(source.classes)), np.float32)
    for inside, views in _scores(source, stored):
        found[inside] = (views[:, 0] + views[:, 1:].max(1)) / 2
    return found


def _scores(source: Damp, stored: Rows) -> Iterator[tuple[Rows, npt.NDArray[np.float32]]]:
    """Yield positions in `stored` and the scores [m, V, C] of their views, shard by shard."""
    for shard, images in enumerate(source.views.shards):
        inside = np.flatnonzero((stored >= images.start) & (stored < images.stop))
        if len(inside):
            embeddings = torch.from_numpy(source.views.seen(EPOCH, shard)[stored[inside] - images.start])
            whole, tiles = scores(embeddings, source.classes.cpu(), source.options.temperature)
            yield inside, np.concatenate([whole.numpy()[:, None], tiles.numpy()], 1)


def _example(source: Damp, split: SplitPredictions, stored: Rows, pseudo: Labels, row: int, column: int) -> Example:
    """Return the example of a pseudo-label with the teacher's scores of the image and its tiles."""
    ((_, (views,)),) = _scores(source, stored[row : row + 1])
    tiles = tuple(
        Tile(box, split.classes[top], float(view[top]), float(view[column]))
        for box, top, view in zip(_boxes(source, split, row), views.argmax(1), views, strict=True)
    )
    return replace(split.example(row, column), pseudo=int(pseudo[row, column]), tiles=tiles)


def _boxes(source: Damp, split: SplitPredictions, row: int) -> list[tuple[float, float, float, float]]:
    """Return the boxes of an image's views [V], as shares of its width and height."""
    settings = source.views.scorer.settings
    height, width, _ = decode(split.paths[row], settings).shape
    plan = plan_views(settings, EPOCH - 1, split.paths.names[row], width, height)
    return [(left / width, top / height, right / width, bottom / height) for left, top, right, bottom in plan.boxes.tolist()]
