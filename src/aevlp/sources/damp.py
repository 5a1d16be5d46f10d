"""Pseudo-labels of DAMP: score the views once, label every epoch anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from aevlp.checkpoints import IMAGENET_MEAN, IMAGENET_STD
from aevlp.config import Config
from aevlp.cores import a_core_each
from aevlp.damp.filling import fill, shard_job
from aevlp.damp.labels import pseudo_labels, scores
from aevlp.damp.scoring import Scorer
from aevlp.damp.store import Embeddings, StoreKey, ViewStore, shards_of
from aevlp.damp.text import class_embeddings, noise_weights
from aevlp.damp.views import ViewSettings
from aevlp.data.fingerprint import set_fingerprint
from aevlp.data.splits import Split
from aevlp.engine import teacher_precision
from aevlp.errors import UserError
from aevlp.seeds import seed_for
from aevlp.teacher import Teacher, load_teacher

if TYPE_CHECKING:
    from accelerate import Accelerator


class DampSource:
    """The pseudo-labels of a training split, from a store of view embeddings or, without one, from the teacher directly."""

    def __init__(self, split: Split, classes: Sequence[str], config: Config, root: Path | None, accelerator: Accelerator) -> None:
        self.split, self.options, self.config, self.accelerator = split, config.damp, config, accelerator
        self.released_code = config.run.compat == "released-code"
        self.precision = teacher_precision(config.teacher.precision, accelerator.device)
        teacher = load_teacher(config.teacher.name, accelerator.device, self.precision)
        # The text side is small and computed once, on the CPU, so that it does not depend on the device.
        self.texts = teacher.encode_texts([config.teacher.prompt.replace("{}", name) for name in classes]).float().cpu()
        generator = torch.Generator().manual_seed(seed_for(config.run.seed, "text noise"))
        self.weights = noise_weights(self.texts.shape[1], generator) if config.damp.noise else None
        self.classes = class_embeddings(self.texts, self.weights, config.damp.neighbours)
        self.observed = torch.from_numpy(split.observed)
        self.shards = shards_of(len(split.names))
        self.scorer = self._scorer(teacher)
        self.store = None if root is None else self._store(root, teacher)
        # Without a store a draw is never seen twice, so there is nothing to recombine.
        self.draws = config.train.epochs if root is None else config.draws

    def _scorer(self, teacher: Teacher) -> Scorer:
        settings = ViewSettings(
            size=teacher.image_size,
            grid=self.options.grid,
            overlap=self.options.overlap,
            augment=self.options.augment,
            seed=self.options.seed,
            released_code=self.released_code,
        )
        mean, std = (IMAGENET_MEAN, IMAGENET_STD) if self.released_code else (teacher.mean, teacher.std)
        return Scorer(
            teacher,
            settings,
            mean=mean,
            std=std,
            accelerator=self.accelerator,
            batch_size=self.config.teacher.batch_size,
            precision=self.precision,
        )

    def _store(self, root: Path, teacher: Teacher) -> ViewStore:
        key = StoreKey(
            teacher=teacher.fingerprint,
            mean=self.scorer.mean,
            std=self.scorer.std,
            precision=self.precision,
            views=self.scorer.settings,
            images=set_fingerprint(self.split.names, self.split.digests),
        )
        about = {"teacher": self.config.teacher.name, "data": str(self.split.root.resolve())}
        return ViewStore(root, key, count=len(self.split.names), dimension=self.texts.shape[1], about=about)

    def fill(self) -> None:
        """Scores what the store lacks."""
        if self.store is not None:
            fill(self.store, self.split, self.draws, self.scorer, self.accelerator)

    def _seen(self, epoch: int, shard: int) -> Embeddings:
        """Float16 [images of the shard, V, K] as the store has them for this epoch."""
        assert self.store is not None
        return self.store.read(epoch - 1, shard) if epoch <= self.draws else self._recombined(self.store, epoch, shard)

    def _recombined(self, store: ViewStore, epoch: int, shard: int) -> Embeddings:
        """Each view from a draw of its own, so that the set of views is new though no view is."""
        rng = np.random.default_rng(seed_for(self.config.run.seed, "recombination", epoch, shard))
        chosen = rng.integers(self.draws, size=(len(self.shards[shard]), self.scorer.settings.count))
        mixed = store.read(0, shard).copy()
        for draw in range(1, self.draws):
            mixed[chosen == draw] = store.read(draw, shard)[chosen == draw]
        return mixed

    def labels(self, epoch: int) -> Tensor:
        """Int8 [N, C] in {1, 0, -1}: the pseudo-labels of epoch 1, 2, ...; the processes share the work."""
        device = self.accelerator.device
        classes = self.classes.to(device)
        table = torch.zeros(self.observed.shape, dtype=torch.int32, device=device)

        def label(shard: int, embeddings: Embeddings) -> None:
            rows = slice(self.shards[shard].start, self.shards[shard].stop)
            table[rows] = pseudo_labels(
                *scores(torch.from_numpy(embeddings).to(device), classes, self.options.temperature),
                self.observed[rows].to(device),
                local_threshold=self.options.local_threshold,
                global_threshold=self.options.global_threshold,
                top_k=self.options.top_k,
                negative_fraction=self.options.negative_fraction,
                released_code=self.released_code,
            ).int()

        ours = range(self.accelerator.process_index, len(self.shards), self.accelerator.num_processes)
        if self.store is None:
            for job, embeddings in self.scorer.embed(shard_job(self.split, epoch - 1, s, self.shards[s]) for s in ours):
                label(job.shard, embeddings)
        else:
            with a_core_each(None if device.type == "cpu" else 1) as pool:
                for _ in pool.map(lambda shard: label(shard, self._seen(epoch, shard)), ours):
                    pass
        shared: Tensor = self.accelerator.reduce(table, reduction="sum")  # each row is zero in all processes but one
        return shared.to(torch.int8).cpu()

    def state(self) -> dict[str, Any]:
        """The text noise: a resumed run must not depend on how a generator of another version draws. And the precision."""
        return {"weights": self.weights, "precision": self.precision}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues with the text noise of `state`; refuses what would let the teacher see otherwise than before."""
        if state["precision"] != self.precision:
            raise UserError(
                f"--resume: the teacher computed in {state['precision']} and would now in {self.precision}; "
                "use the same kind of device, or start anew"
            )
        self.weights = state["weights"]
        self.classes = class_embeddings(self.texts, self.weights, self.options.neighbours)
