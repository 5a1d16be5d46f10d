"""Embeddings of views of an image set: read from the store or, without a store, computed by the teacher directly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator
from torch import Tensor

from aevlp.core.engine import teacher_precision
from aevlp.core.errors import UserError
from aevlp.core.seeds import seed_for
from aevlp.core.torch_threads import one_thread_per_core
from aevlp.damp.scoring import Scorer
from aevlp.damp.text import text_embeddings
from aevlp.damp.views import ViewSettings, decode, plan_views
from aevlp.data.dataset import Rows, Split, evenly_spread
from aevlp.data.fingerprint import Digests
from aevlp.models.image_settings import IMAGENET_MEAN, IMAGENET_STD
from aevlp.models.options import TeacherOptions
from aevlp.models.prompts import class_prompts, digest_of
from aevlp.models.teacher import load_teacher
from aevlp.store.embedding_store import EmbeddingStore, Key
from aevlp.store.fill import Job, fill, missing
from aevlp.store.packs import Embeddings, chunks_of

Compute = Callable[[Tensor, Tensor], Tensor]
"""(rows [B] of the split, their embeddings [B, V, K] on the device) -> [B, C], there or on the CPU."""


@dataclass(frozen=True)
class ViewKey(Key):
    """Everything that the embeddings of views depend on."""

    teacher: str  # fingerprint of its weights
    mean: tuple[float, ...]
    std: tuple[float, ...]
    precision: str
    views: ViewSettings

    @property
    def vectors(self) -> int:
        """V: the whole image and its tiles."""
        return self.views.count


@dataclass(frozen=True)
class RowsJob(Job):
    """Images of some rows of a split."""

    rows: Rows


class ViewEmbeddings:
    """The teacher's embeddings of views of the images of a split, in `draws` draws.

    `view` holds the view settings except their size, which is the teacher's.
    """

    def __init__(
        self,
        split: Split,
        classes: Sequence[str],
        teacher: TeacherOptions,
        *,
        draws: int,
        view: Mapping[str, Any],
        store_root: Path | None,
        seed: int,
        accelerator: Accelerator,
    ) -> None:
        self.options, self.store_root, self.seed, self.accelerator = teacher, store_root, seed, accelerator
        prompts = class_prompts(teacher.prompts, teacher.prompt, classes)  # refused before the teacher is loaded
        self.prompts = digest_of(prompts)
        self.precision = teacher_precision(teacher.precision, accelerator.device)
        model = load_teacher(teacher.name, accelerator.device, self.precision)
        # The text side is small and computed once, on the CPU, so that it does not depend on the device.
        self.texts = text_embeddings(model.encode_texts, prompts).cpu()
        settings = ViewSettings(size=model.image_size, **view)
        mean, std = (IMAGENET_MEAN, IMAGENET_STD) if settings.released_code else (model.mean, model.std)
        self.scorer = Scorer(
            model,
            settings,
            mean=mean,
            std=std,
            accelerator=accelerator,
            batch_size=teacher.batch_size,
            precision=self.precision,
        )
        self._open(split, draws)

    def _open(self, split: Split, draws: int) -> None:
        """Set the images, and open the store, if there is one."""
        self.split, self.draws = split, draws
        self.store: EmbeddingStore | None = None
        if self.store_root is not None:
            key = ViewKey(
                teacher=self.scorer.teacher.fingerprint,
                mean=self.scorer.mean,
                std=self.scorer.std,
                precision=self.precision,
                views=self.scorer.settings,
            )
            self.store = EmbeddingStore(self.store_root, key, dimension=self.texts.shape[1], about={"model": self.options.name})

    def at(self, split: Split, draws: int = 1) -> ViewEmbeddings:
        """Return the same teacher's embeddings of other images."""
        other = copy(self)
        other.split, other.draws = split, draws
        return other

    def missing(self) -> int:
        """Return how many images the teacher has still to see, each counted once per draw; without a store, all."""
        if self.store is None:
            return self.draws * len(self.split.names)
        return missing(self.store, self.split.digests, self.draws)

    def fill(self) -> None:
        """Compute the embeddings that the store lacks."""
        if self.store is not None:
            fill(self.store, self.split, self.draws, self.scorer, self.accelerator)

    def seen(self, epoch: int, rows: Rows) -> Embeddings:
        """Return the stored embeddings of some rows of the split for epoch 1, 2, ...: float16 [rows, V, K]."""
        assert self.store is not None
        digests = self.split.digests[rows]
        return self.store.read(epoch - 1, digests) if epoch <= self.draws else self._recombined(self.store, epoch, digests)

    def _recombined(self, store: EmbeddingStore, epoch: int, digests: Digests) -> Embeddings:
        """Take each view from a random draw: the combination is new although no view is."""
        chosen = drawn(digests, self.scorer.settings.count, self.draws, seed_for(self.seed, "recombination", epoch))
        mixed = np.array(store.read(0, digests))
        for draw in range(1, self.draws):
            mixed[chosen == draw] = store.read(draw, digests)[chosen == draw]
        return mixed

    def sample(self, most: int) -> tuple[Rows, Tensor]:
        """Return (rows [M], embeddings float32 [M, V, K]) of at most `most` evenly spread images in the stored first draw."""
        rows = evenly_spread(len(self.split.names), most)
        return rows, torch.from_numpy(self.seen(1, rows).astype(np.float32))

    def boxes(self, epoch: int, row: int) -> list[tuple[float, float, float, float]]:
        """Return the boxes [V] of an image's views of epoch 1, 2, ..., `draws`, as shares of its width and height."""
        settings = self.scorer.settings
        height, width, _ = decode(self.split.paths[row], settings).shape
        plan = plan_views(settings, epoch - 1, self.split.digests[row], width, height)
        return [(left / width, top / height, right / width, bottom / height) for left, top, right, bottom in plan.boxes.tolist()]

    def labels(self, epoch: int, label: Compute) -> Tensor:
        """Return the labels that `label` computes from the views of epoch 1, 2, ...: int8 [N, C]."""
        return self._table(epoch, label, torch.int32).to(torch.int8)

    def mean_scores(self, score: Compute, width: int | None = None) -> Tensor:
        """Return what `score` computes from the views, averaged over the draws: float32 [N, C], or [N, `width`]."""
        total = self._table(1, score, torch.float32, width)
        for draw in range(2, self.draws + 1):
            total += self._table(draw, score, torch.float32, width)
        return total / self.draws

    def _table(self, epoch: int, compute: Compute, kind: torch.dtype, width: int | None = None) -> Tensor:
        """Return `compute` of the views of epoch 1, 2, ..., [N, C or `width`] on the CPU; the processes share the work."""
        device = self.accelerator.device
        images, classes = self.split.observed.shape
        table = torch.zeros((images, width or classes), dtype=kind, device=device)

        def enter(rows: Rows, embeddings: Embeddings) -> None:
            at = torch.from_numpy(rows)
            table[at.to(device)] = compute(at, torch.from_numpy(embeddings).to(device)).to(table)

        chunks = [np.arange(rows.start, rows.stop) for rows in chunks_of(len(self.split.names))]
        ours = chunks[self.accelerator.process_index :: self.accelerator.num_processes]
        if self.store is None:
            jobs = (RowsJob(self.split.paths.at(rows), self.split.digests[rows], epoch - 1, rows) for rows in ours)
            for job, embeddings in self.scorer.embed(jobs):
                enter(job.rows, embeddings)
        else:
            with one_thread_per_core(None if device.type == "cpu" else 1) as pool:
                for _ in pool.map(lambda rows: enter(rows, self.seen(epoch, rows)), ours):
                    pass
        shared: Tensor = self.accelerator.reduce(table, reduction="sum")  # each row is zero in all processes but one
        return shared.cpu()

    def state_dict(self) -> dict[str, Any]:
        """Return the teacher's precision and prompts for a checkpoint."""
        return {"precision": self.precision, "prompts": self.prompts}

    def check(self, state: Mapping[str, Any]) -> None:
        """Refuse to continue with another precision or other prompts than in `state`, which may hold more."""
        if state["precision"] != self.precision:
            raise UserError(
                f"--resume: the teacher computed in {state['precision']} and would now in {self.precision}; "
                "use the same kind of device, or start a new run"
            )
        if state.get("prompts", self.prompts) != self.prompts:  # not in checkpoints of 0.4.0
            raise UserError(
                f"--resume: the prompts in {self.options.prompts} are not those that the run was started with; "
                "restore those, or start a new run"
            )


def drawn(digests: Digests, views: int, draws: int, seed: int) -> npt.NDArray[np.intp]:
    """Return a random draw 0..draws-1 for each view, [N, views]: a function of the seed and the image's content alone."""
    identity = np.frombuffer(digests.tobytes(), "<u8")[::2, None]
    # The finalizer of SplitMix64, in which every bit of the sum changes every bit of the result.
    x = identity + np.uint64(seed) + np.arange(1, views + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    chosen: npt.NDArray[np.intp] = ((x ^ (x >> np.uint64(31))) % np.uint64(draws)).astype(np.intp)
    return chosen
