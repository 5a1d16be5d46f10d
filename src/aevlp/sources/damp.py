"""Pseudo-labels of DAMP: score the views once, label every epoch anew."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from aevlp.checkpoints import IMAGENET_MEAN, IMAGENET_STD
from aevlp.config import Config
from aevlp.damp.labels import pseudo_labels, scores
from aevlp.damp.scoring import Scorer
from aevlp.damp.store import SHARD, Embeddings, StoreKey, ViewStore
from aevlp.damp.text import class_embeddings, noise_weights
from aevlp.damp.views import ViewSettings
from aevlp.data.fingerprint import digests, set_fingerprint
from aevlp.data.splits import Split
from aevlp.progress import progress
from aevlp.seeds import seed_for
from aevlp.teacher import Teacher, load_teacher

if TYPE_CHECKING:
    from accelerate import Accelerator

log = logging.getLogger("aevlp")


class DampSource:
    """The pseudo-labels of a training split, from a store of view embeddings or, without one, from the teacher directly."""

    def __init__(self, split: Split, classes: Sequence[str], config: Config, root: Path | None, accelerator: Accelerator) -> None:
        self.split, self.options, self.config, self.accelerator = split, config.damp, config, accelerator
        self.released_code = config.run.compat == "released-code"
        teacher = load_teacher(config.teacher.name, accelerator.device)
        prompts = [config.teacher.prompt.format(name) for name in classes]
        self.texts = teacher.encode_texts(prompts).to(accelerator.device).float()
        generator = torch.Generator().manual_seed(seed_for(config.run.seed, "text noise"))
        self.weights = noise_weights(self.texts.shape[1], generator) if config.damp.noise else None
        self.observed = torch.from_numpy(split.observed)
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
            batch_size=self.config.teacher.batch_size,
            accelerator=self.accelerator,
        )

    def _store(self, root: Path, teacher: Teacher) -> ViewStore:
        key = StoreKey(
            teacher=teacher.fingerprint,
            mean=tuple(self.scorer.mean.flatten().tolist()),
            std=tuple(self.scorer.std.flatten().tolist()),
            views=self.scorer.settings,
            images=set_fingerprint(self.split.names, digests(self.split.paths)),
        )
        return ViewStore(root, key, count=len(self.split.names), dimension=self.texts.shape[1])

    def fill(self) -> None:
        """Scores what the store lacks, shared between the processes. Returns when all of it is there."""
        if self.store is None:
            return
        missing = self.store.missing(self.draws)
        self.accelerator.wait_for_everyone()  # nobody writes before everybody has seen the same gaps
        ours = missing[self.accelerator.process_index :: self.accelerator.num_processes]
        who = f"process {self.accelerator.process_index + 1} of {self.accelerator.num_processes}"
        if missing:
            total = sum(len(self.store.rows(shard)) for _, shard in ours)
            views = self.scorer.settings.count
            log.debug("%s scores %d of %d shards", who, len(ours), len(missing))
            with progress(f"scoring {views} views each", total) as advance:
                for draw, shard in ours:
                    self.store.write(draw, shard, self._score(draw, shard, advance))
            self.accelerator.wait_for_everyone()
        done = "no teacher pass" if not missing else f"{self.scorer.passes} teacher passes by {who}"
        log.info("store %s: %d draws of %d images, %s", self.store.folder, self.draws, self.store.count, done)

    def _rows(self, shard: int) -> slice:
        return slice(shard * SHARD, min((shard + 1) * SHARD, len(self.split.names)))

    def _score(self, draw: int, shard: int, advance: Any = lambda _: None) -> Embeddings:
        rows = self._rows(shard)
        return self.scorer.embed(self.split.paths[rows], self.split.names[rows], draw, advance)

    def _embeddings(self, epoch: int, shard: int) -> Embeddings:
        """Float16 [images of the shard, V, K] as the teacher sees them in this epoch."""
        if self.store is None:
            return self._score(epoch - 1, shard)
        if epoch <= self.draws:
            return self.store.read(epoch - 1, shard)
        # Each view comes from a draw of its own, so that the set of views is new though no view is.
        rng = np.random.default_rng(seed_for(self.config.run.seed, "recombination", epoch, shard))
        rows = self._rows(shard)
        chosen = rng.integers(self.draws, size=(rows.stop - rows.start, self.scorer.settings.count))
        mixed = self.store.read(0, shard).copy()
        for draw in range(1, self.draws):
            mixed[chosen == draw] = self.store.read(draw, shard)[chosen == draw]
        return mixed

    def labels(self, epoch: int) -> Tensor:
        """Int8 [N, C] in {1, 0, -1}: the pseudo-labels of epoch 1, 2, ...; the processes share the work."""
        device = self.accelerator.device
        classes = class_embeddings(self.texts, self.weights, self.options.neighbours)
        table = torch.zeros(self.observed.shape, dtype=torch.int32, device=device)
        shards = range(-(-len(self.split.names) // SHARD))
        for shard in shards[self.accelerator.process_index :: self.accelerator.num_processes]:
            rows = self._rows(shard)
            embeddings = torch.from_numpy(np.array(self._embeddings(epoch, shard))).to(device)
            table[rows] = pseudo_labels(
                *scores(embeddings, classes, self.options.temperature),
                self.observed[rows].to(device),
                local_threshold=self.options.local_threshold,
                global_threshold=self.options.global_threshold,
                top_k=self.options.top_k,
                negative_fraction=self.options.negative_fraction,
                released_code=self.released_code,
            ).int()
        shared: Tensor = self.accelerator.reduce(table, reduction="sum")  # each row is zero in all processes but one
        return shared.to(torch.int8).cpu()

    def state(self) -> dict[str, Any]:
        """The text noise: a resumed run must not depend on how a generator of another version draws."""
        return {"weights": self.weights}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues with the text noise of `state`."""
        self.weights = state["weights"]
