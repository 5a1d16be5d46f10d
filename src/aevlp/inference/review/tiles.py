"""The teacher's scores of each tile of an image, from the stored views. The teacher is loaded when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from aevlp.config.config import Config
from aevlp.core.errors import UserError
from aevlp.data.dataset import ImageTable, Split
from aevlp.data.image_files import digests
from aevlp.store.location import store_root

if TYPE_CHECKING:
    from aevlp.sources.damp import Damp

EPOCH = 1  # whose views are shown: those of draw 0
MOST_SHOWN = 3  # classes of a tile


@dataclass(frozen=True)
class TileScores:
    """One view: its box as shares of the image's width and height, and the teacher's scores."""

    box: tuple[float, float, float, float]  # left, top, right, bottom
    top: list[tuple[int, float]]  # (class, score), the highest first
    scores: dict[int, float]  # of the classes that were asked about


class TeacherTiles:
    """The tiles of the images of a table, as the teacher of a configuration saw them."""

    def __init__(self, config: Config, table: ImageTable) -> None:
        self._config, self._table, self._lock = config, table, threading.Lock()
        self._source: Damp | None = None

    def of(self, row: int, columns: Sequence[int]) -> list[TileScores]:
        """Return the whole image, then its tiles; a UserError says why there are none."""
        with self._lock:
            split = self._split(row)
            source = self._loaded(split)
            views = source.views.at(split)
            assert views.store is not None
            if views.store.missing(EPOCH - 1, split.digests).any():
                raise UserError("no views of this image are stored for this teacher; aevlp score DATA stores them")
            (scores,) = source.view_scores(views, EPOCH, np.zeros(1, np.intp))
            boxes = views.boxes(EPOCH, 0)
        order = np.argsort(-scores, axis=1)[:, :MOST_SHOWN]
        return [
            TileScores(
                box,
                [(int(column), round(float(view[column]), 4)) for column in best],
                {column: round(float(view[column]), 4) for column in columns},
            )
            for box, best, view in zip(boxes, order, scores, strict=True)
        ]

    def _split(self, row: int) -> Split:
        table = self._table
        return Split("train", table.root, (table.names[row],), digests([table.paths[row]]), np.zeros_like(table.labels[:1]), None)

    def _loaded(self, split: Split) -> Damp:
        if self._source is not None:
            return self._source
        config, root = self._config, store_root(self._config.run.store)
        if not config.method.source.has_view_scores:
            raise UserError(f"the method {config.method.name} has no teacher; start the review with --method aevlp")
        if root is None:
            raise UserError("without a store there are no views to show; start the review without --store none")

        from aevlp.core.engine import make_accelerator  # these load torch
        from aevlp.training.estimate import describe_missing, missing_models

        if models := missing_models(config, backbone=False):
            raise UserError(describe_missing(models))
        context = config.source_context(split, self._table.classes, root, make_accelerator(config.engine))
        self._source = cast("Damp", config.method.source.make(context, config.source))
        return self._source
