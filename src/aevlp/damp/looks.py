"""What the teacher sees of the training images: embeddings of views from the store or, without one, from the teacher directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aevlp.checkpoints import IMAGENET_MEAN, IMAGENET_STD
from aevlp.cores import a_core_each
from aevlp.damp.filling import fill, shard_job
from aevlp.damp.scoring import Scorer
from aevlp.damp.store import Embeddings, StoreKey, ViewStore, shards_of
from aevlp.damp.views import ViewSettings
from aevlp.data.fingerprint import set_fingerprint
from aevlp.engine import teacher_precision
from aevlp.errors import UserError
from aevlp.seeds import seed_for
from aevlp.sources.registry import Task
from aevlp.teacher import Teacher, load_teacher

Label = Callable[[slice, Tensor], Tensor]
"""(rows of the split, their embeddings [B, V, K] on the device) -> int8 [B, C]."""


class Looks:
    """The teacher's looks at the images of a task: `draws` draws of views.

    `view` holds the views' settings but for their size, which is the teacher's.
    """

    def __init__(self, task: Task, draws: int, view: dict[str, Any]) -> None:
        self.task, self.accelerator = task, task.accelerator
        options = task.config.teacher
        self.precision = teacher_precision(options.precision, self.accelerator.device)
        teacher = load_teacher(options.name, self.accelerator.device, self.precision)
        # The text side is small and computed once, on the CPU, so that it does not depend on the device.
        self.texts = teacher.encode_texts([options.prompt.replace("{}", name) for name in task.classes]).float().cpu()
        self.shards = shards_of(len(task.split.names))
        self.scorer = self._scorer(teacher, ViewSettings(size=teacher.image_size, **view))
        self.store = None if task.root is None else self._store(teacher)
        self.draws = draws

    def _scorer(self, teacher: Teacher, settings: ViewSettings) -> Scorer:
        mean, std = (IMAGENET_MEAN, IMAGENET_STD) if settings.released_code else (teacher.mean, teacher.std)
        return Scorer(
            teacher,
            settings,
            mean=mean,
            std=std,
            accelerator=self.accelerator,
            batch_size=self.task.config.teacher.batch_size,
            precision=self.precision,
        )

    def _store(self, teacher: Teacher) -> ViewStore:
        split, root = self.task.split, self.task.root
        assert root is not None
        key = StoreKey(
            teacher=teacher.fingerprint,
            mean=self.scorer.mean,
            std=self.scorer.std,
            precision=self.precision,
            views=self.scorer.settings,
            images=set_fingerprint(split.names, split.digests),
        )
        about = {"teacher": self.task.config.teacher.name, "data": str(split.root.resolve())}
        return ViewStore(root, key, count=len(split.names), dimension=self.texts.shape[1], about=about)

    def fill(self) -> None:
        """Scores what the store lacks."""
        if self.store is not None:
            fill(self.store, self.task.split, self.draws, self.scorer, self.accelerator)

    def seen(self, epoch: int, shard: int) -> Embeddings:
        """Float16 [images of the shard, V, K] as the store has them for epoch 1, 2, ..."""
        assert self.store is not None
        return self.store.read(epoch - 1, shard) if epoch <= self.draws else self._recombined(self.store, epoch, shard)

    def _recombined(self, store: ViewStore, epoch: int, shard: int) -> Embeddings:
        """Each view from a draw of its own, so that the set of views is new though no view is."""
        rng = np.random.default_rng(seed_for(self.task.config.run.seed, "recombination", epoch, shard))
        chosen = rng.integers(self.draws, size=(len(self.shards[shard]), self.scorer.settings.count))
        mixed = store.read(0, shard).copy()
        for draw in range(1, self.draws):
            mixed[chosen == draw] = store.read(draw, shard)[chosen == draw]
        return mixed

    def labelled(self, epoch: int, label: Label) -> Tensor:
        """Int8 [N, C]: what `label` makes of the views of epoch 1, 2, ...; the processes share the work."""
        device = self.accelerator.device
        table = torch.zeros(self.task.split.observed.shape, dtype=torch.int32, device=device)

        def enter(shard: int, embeddings: Embeddings) -> None:
            rows = slice(self.shards[shard].start, self.shards[shard].stop)
            table[rows] = label(rows, torch.from_numpy(embeddings).to(device)).int()

        ours = range(self.accelerator.process_index, len(self.shards), self.accelerator.num_processes)
        if self.store is None:
            jobs = (shard_job(self.task.split, epoch - 1, shard, self.shards[shard]) for shard in ours)
            for job, embeddings in self.scorer.embed(jobs):
                enter(job.shard, embeddings)
        else:
            with a_core_each(None if device.type == "cpu" else 1) as pool:
                for _ in pool.map(lambda shard: enter(shard, self.seen(epoch, shard)), ours):
                    pass
        shared: Tensor = self.accelerator.reduce(table, reduction="sum")  # each row is zero in all processes but one
        return shared.to(torch.int8).cpu()

    def check(self, precision: str) -> None:
        """Refuses to go on where the teacher saw otherwise before."""
        if precision != self.precision:
            raise UserError(
                f"--resume: the teacher computed in {precision} and would now in {self.precision}; "
                "use the same kind of device, or start anew"
            )
