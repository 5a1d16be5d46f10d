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
from aevlp.damp.views import ViewSettings
from aevlp.data.dataset import Split
from aevlp.data.fingerprint import set_fingerprint
from aevlp.models.image_settings import IMAGENET_MEAN, IMAGENET_STD
from aevlp.models.options import TeacherOptions
from aevlp.models.prompts import class_prompts, digest_of
from aevlp.models.teacher import load_teacher
from aevlp.store.embedding_store import Embeddings, EmbeddingStore, Key, shards_of
from aevlp.store.fill import fill, shard_job

Compute = Callable[[Tensor, Tensor], Tensor]
"""(rows [B] of the split, their embeddings [B, V, K] on the device) -> [B, C]."""


@dataclass(frozen=True)
class ViewKey(Key):
    """Everything that the embeddings of views depend on."""

    teacher: str  # fingerprint of its weights
    mean: tuple[float, ...]
    std: tuple[float, ...]
    precision: str
    views: ViewSettings
    images: str  # fingerprint of the image set

    @property
    def vectors(self) -> int:
        """V: the whole image and its tiles."""
        return self.views.count


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
        """Set the images, and open their store, if there is one."""
        self.split, self.draws = split, draws
        # Of a part of a split the whole is embedded, if a store keeps it for the other parts.
        self.images = images = split if split.whole is None or self.store_root is None else split.whole
        self.shards = shards_of(len(images.names))
        self.store: EmbeddingStore | None = None
        if self.store_root is not None:
            key = ViewKey(
                teacher=self.scorer.teacher.fingerprint,
                mean=self.scorer.mean,
                std=self.scorer.std,
                precision=self.precision,
                views=self.scorer.settings,
                images=set_fingerprint(images.names, images.digests),
            )
            about = {"model": self.options.name, "data": str(images.root.resolve())}
            count, dimension = len(images.names), self.texts.shape[1]
            self.store = EmbeddingStore(self.store_root, key, count=count, dimension=dimension, about=about)

    def at(self, split: Split, draws: int = 1) -> ViewEmbeddings:
        """Return the same teacher's embeddings of other images."""
        other = copy(self)
        other._open(split, draws)
        return other

    def fill(self) -> None:
        """Compute the embeddings that the store lacks."""
        if self.store is not None:
            fill(self.store, self.images, self.draws, self.scorer, self.accelerator)

    def seen(self, epoch: int, shard: int) -> Embeddings:
        """Return the stored embeddings of a shard for epoch 1, 2, ...: float16 [images of the shard, V, K]."""
        assert self.store is not None
        return self.store.read(epoch - 1, shard) if epoch <= self.draws else self._recombined(self.store, epoch, shard)

    def _recombined(self, store: EmbeddingStore, epoch: int, shard: int) -> Embeddings:
        """Take each view from a random draw: the combination is new although no view is."""
        rng = np.random.default_rng(seed_for(self.seed, "recombination", epoch, shard))
        chosen = rng.integers(self.draws, size=(len(self.shards[shard]), self.scorer.settings.count))
        mixed = store.read(0, shard).copy()
        for draw in range(1, self.draws):
            mixed[chosen == draw] = store.read(draw, shard)[chosen == draw]
        return mixed

    def sample(self, most: int) -> tuple[npt.NDArray[np.intp], Tensor]:
        """Return (rows [M], embeddings float32 [M, V, K]) of at most `most` evenly spread images in the stored first draw."""
        rows = np.unique(np.linspace(0, len(self.images.names) - 1, most).round().astype(np.intp))
        parts = [
            np.array(self.seen(1, shard)[rows[(rows >= own.start) & (rows < own.stop)] - own.start], dtype=np.float32)
            for shard, own in enumerate(self.shards)
        ]
        return rows, torch.from_numpy(np.concatenate(parts))

    def labels(self, epoch: int, label: Compute) -> Tensor:
        """Return the labels that `label` computes from the views of epoch 1, 2, ...: int8 [N, C]."""
        return self._table(epoch, label, torch.int32).to(torch.int8)

    def mean_scores(self, score: Compute) -> Tensor:
        """Return the scores that `score` computes from the views, averaged over the draws: float32 [N, C]."""
        tables = [self._table(draw, score, torch.float32) for draw in range(1, self.draws + 1)]
        return torch.stack(tables).mean(0)

    def _table(self, epoch: int, compute: Compute, kind: torch.dtype) -> Tensor:
        """Return `compute` of the views of epoch 1, 2, ..., [N, C] on the CPU; the processes share the work."""
        device = self.accelerator.device
        table = torch.zeros(self.split.observed.shape, dtype=kind, device=device)
        row_of = self._rows()

        def enter(shard: int, embeddings: Embeddings) -> None:
            rows = row_of[self.shards[shard].start : self.shards[shard].stop]
            ours = rows >= 0
            if ours.any():
                seen = torch.from_numpy(embeddings if ours.all() else embeddings[ours.numpy()]).to(device)
                table[rows[ours].to(device)] = compute(rows[ours], seen).to(kind)

        ours = range(self.accelerator.process_index, len(self.shards), self.accelerator.num_processes)
        if self.store is None:
            jobs = (shard_job(self.images, epoch - 1, shard, self.shards[shard]) for shard in ours)
            for job, embeddings in self.scorer.embed(jobs):
                enter(job.shard, embeddings)
        else:
            with one_thread_per_core(None if device.type == "cpu" else 1) as pool:
                for _ in pool.map(lambda shard: enter(shard, self.seen(epoch, shard)), ours):
                    pass
        shared: Tensor = self.accelerator.reduce(table, reduction="sum")  # each row is zero in all processes but one
        return shared.cpu()

    def _rows(self) -> Tensor:
        """Return the row in the split of each embedded image, int64; -1 if it is not in the split."""
        if self.images is self.split:
            return torch.arange(len(self.images.names))
        row_of = {name: row for row, name in enumerate(self.split.names)}
        return torch.tensor([row_of.get(name, -1) for name in self.images.names])

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
