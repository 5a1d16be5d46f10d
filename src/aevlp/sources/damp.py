"""Pseudo-labels of DAMP: score the views once, label every epoch anew."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor

from aevlp.checkpoints import IMAGENET_MEAN, IMAGENET_STD
from aevlp.config import Config
from aevlp.damp.labels import pseudo_labels, scores
from aevlp.damp.scoring import Scorer
from aevlp.damp.store import Embeddings, StoreKey, ViewStore, shards_of
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
            batch_size=self.config.teacher.batch_size,
            accelerator=self.accelerator,
        )

    def _store(self, root: Path, teacher: Teacher) -> ViewStore:
        key = StoreKey(
            teacher=teacher.fingerprint,
            mean=tuple(self.scorer.mean.flatten().tolist()),
            std=tuple(self.scorer.std.flatten().tolist()),
            precision=self.config.engine.precision,
            views=self.scorer.settings,
            images=set_fingerprint(self.split.names, digests(self.split.paths)),
        )
        return ViewStore(root, key, count=len(self.split.names), dimension=self.texts.shape[1])

    def fill(self) -> None:
        """Scores what the store lacks, shared between the processes. Returns when all of it is there."""
        if self.store is None:
            return
        # One process looks: another run may be filling the store, and all must see the same gaps.
        missing: list[tuple[int, int]] = broadcast_object_list([self.store.missing(self.draws)])[0]
        ours = missing[self.accelerator.process_index :: self.accelerator.num_processes]
        total = sum(len(self.store.rows(shard)) for _, shard in ours)
        with progress(f"scoring {self.scorer.settings.count} views each", total) as advance:
            for draw, shard in ours:
                if not self.store.path(draw, shard).is_file():  # nobody else has written it meanwhile
                    self.store.write(draw, shard, self._score(draw, shard, advance))
        passes = gather_object([self.scorer.passes])  # returns when all are done
        log.info("store %s: %d draws of %d images", self.store.folder, self.draws, self.store.count)
        for process, count in enumerate(passes):
            share = len(missing[process :: len(passes)])
            done = f"scored {share} of {len(missing)} shards, {count} teacher passes" if missing else "no teacher pass"
            log.info("process %d of %d: %s", process + 1, len(passes), done)

    def _score(self, draw: int, shard: int, advance: Any = lambda _: None) -> Embeddings:
        rows = self.shards[shard]
        names = self.split.names[rows.start : rows.stop]
        return self.scorer.embed([self.split.root / name for name in names], names, draw, advance)

    def _embeddings(self, epoch: int, shard: int) -> Embeddings:
        """Float16 [images of the shard, V, K] as the teacher sees them in this epoch."""
        if self.store is None:
            return self._score(epoch - 1, shard)
        if epoch <= self.draws:
            return self.store.read(epoch - 1, shard)
        # Each view comes from a draw of its own, so that the set of views is new though no view is.
        rng = np.random.default_rng(seed_for(self.config.run.seed, "recombination", epoch, shard))
        chosen = rng.integers(self.draws, size=(len(self.shards[shard]), self.scorer.settings.count))
        mixed = self.store.read(0, shard).copy()
        for draw in range(1, self.draws):
            mixed[chosen == draw] = self.store.read(draw, shard)[chosen == draw]
        return mixed

    def labels(self, epoch: int) -> Tensor:
        """Int8 [N, C] in {1, 0, -1}: the pseudo-labels of epoch 1, 2, ...; the processes share the work."""
        device = self.accelerator.device
        classes = self.classes.to(device)
        table = torch.zeros(self.observed.shape, dtype=torch.int32, device=device)
        for shard in range(self.accelerator.process_index, len(self.shards), self.accelerator.num_processes):
            rows = slice(self.shards[shard].start, self.shards[shard].stop)
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
        self.classes = class_embeddings(self.texts, self.weights, self.options.neighbours)
