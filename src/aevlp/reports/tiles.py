"""What DAMP's teacher saw in the tiles of the images whose pseudo-labels are the most telling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from aevlp.data.table import Labels
from aevlp.reports.examples import Candidate, Exhibit, Floats, Gallery, Mask, Scene, Tile, best_of_class, most_telling

if TYPE_CHECKING:
    from aevlp.sources.damp import Damp

POSITIVE, NEGATIVE = 6, 3  # exhibits, larger than those of other galleries
EPOCH = 1  # whose views are shown: those of draw 0
Rows = npt.NDArray[np.intp]


def gallery_of_teacher(source: Damp, scene: Scene, rows: Rows, observed: Labels) -> Gallery:
    """Pseudo-labels of the first epoch that are wrong or, where the truth is not known, that the classifier doubts most.

    The scene and observed [M, C] are of the training images `rows` [M]. All processes call it together.
    """
    pseudo = source.labels(EPOCH).numpy()[rows]
    told = (observed == 0) & (pseudo != 0)
    right = (scene.labels == 1) == (pseudo == 1)
    asked = told & ~right if scene.is_complete else told
    stored = _stored(source, scene.paths.names)
    chosen = _chosen(scene, asked, pseudo, _certainty(source, stored) if scene.is_complete else None)
    exhibits = tuple(_exhibit(source, scene, stored, pseudo, row, column) for row, column in chosen)
    return Gallery(exhibits, int(told.sum()), int((told & right).sum()) if scene.is_complete else None)


def _chosen(scene: Scene, asked: Mask, pseudo: Labels, certainty: Floats | None) -> list[tuple[int, int]]:
    """(row, column) among `asked` [M, C]: where the teacher was surest or, without its certainty, the classifier is least."""
    chosen: list[tuple[int, int]] = []
    for sign, most in ((1, POSITIVE), (-1, NEGATIVE)):
        candidates: list[Candidate] = []
        for column in range(len(scene.classes)):
            rank = -sign * scene.margin(column) if certainty is None else sign * certainty[:, column]
            candidates += best_of_class(rank, asked[:, column] & (pseudo[:, column] == sign), column)
        chosen += most_telling(candidates, most=most)
    return chosen


def _stored(source: Damp, names: Sequence[str]) -> Rows:
    """Where the store has images of these names: it may hold more than are trained on."""
    place = {name: row for row, name in enumerate(source.views.images.names)}
    return np.array([place[name] for name in names], np.intp)


def _certainty(source: Damp, stored: Rows) -> npt.NDArray[np.float32]:
    """Float32 [M, C]: the mean of the whole image's and the best tile's score."""
    found = np.empty((len(stored), len(source.classes)), np.float32)
    for inside, all_views in _scores(source, stored):
        found[inside] = (all_views[:, 0] + all_views[:, 1:].max(1)) / 2
    return found


def _scores(source: Damp, stored: Rows) -> Iterator[tuple[Rows, npt.NDArray[np.float32]]]:
    """(which of `stored`, their scores [m, V, C]), shard by shard."""
    import torch

    from aevlp.damp.labels import scores

    for shard, images in enumerate(source.views.shards):
        inside = np.flatnonzero((stored >= images.start) & (stored < images.stop))
        if len(inside):
            embeddings = torch.from_numpy(source.views.seen(EPOCH, shard)[stored[inside] - images.start])
            whole, tiles = scores(embeddings, source.classes.cpu(), source.options.temperature)
            yield inside, np.concatenate([whole.numpy()[:, None], tiles.numpy()], 1)


def _exhibit(source: Damp, scene: Scene, stored: Rows, pseudo: Labels, row: int, column: int) -> Exhibit:
    """The exhibit of a pseudo-label, with the tiles that the teacher judged by."""
    ((_, (all_views,)),) = _scores(source, stored[row : row + 1])
    top = all_views.argmax(1)
    tiles = tuple(
        Tile(box, scene.classes[best], float(view[best]), float(view[column]))
        for box, best, view in zip(_boxes(source, scene.paths[row], scene.paths.names[row]), top, all_views, strict=True)
    )
    return replace(scene.exhibit(row, column), pseudo=int(pseudo[row, column]), tiles=tiles)


def _boxes(source: Damp, path: Path, name: str) -> list[tuple[float, float, float, float]]:
    """The boxes of the views [V], as shares of the image's width and height."""
    from aevlp.damp.views import decode, plan_views

    settings = source.views.scorer.settings
    height, width, _ = decode(path, settings).shape
    plan = plan_views(settings, EPOCH - 1, name, width, height)
    return [(left / width, top / height, right / width, bottom / height) for left, top, right, bottom in plan.boxes.tolist()]
