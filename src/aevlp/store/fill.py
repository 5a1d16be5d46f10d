"""Filling a store: every process of every run that needs the same images takes those that nobody else is computing."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from accelerate import Accelerator
from accelerate.utils import gather_object

from aevlp.core.errors import first_few
from aevlp.core.progress import progress
from aevlp.data.dataset import Rows, Split
from aevlp.data.fingerprint import Digests, different
from aevlp.store.claims import Claims
from aevlp.store.embedding_store import EmbeddingStore, older_stores
from aevlp.store.packs import PACK, Embeddings

log = logging.getLogger("aevlp")
WAIT = 0.5  # seconds between two looks at the images of other processes


@dataclass(frozen=True)
class Job:
    """Images to embed in one draw: their files, and the digests that seed their views."""

    paths: Sequence[Path]
    digests: Digests
    draw: int


class Embedder(Protocol):
    """A frozen model that fills a store."""

    forward_batches: int
    """Batches computed so far."""
    model: str
    """Name of the model in messages."""
    work: str
    """Name of the work in the progress bar."""

    def embed(self, jobs: Iterable[Job], advance: Callable[[int], None]) -> Iterator[tuple[Job, Embeddings]]:
        """Yield each job with its float16 [images, V, K]; call `advance` with the number of images just finished."""
        ...


def missing(store: EmbeddingStore, digests: Digests, draws: int) -> int:
    """Return how many embeddings of images the first `draws` draws lack; equal images count once."""
    once, _ = different(digests)
    return sum(int(store.missing(draw, once).sum()) for draw in range(draws))


def fill(store: EmbeddingStore, split: Split, draws: int, embedder: Embedder, accelerator: Accelerator) -> None:
    """Compute what the first `draws` draws lack, and the damaged packs again; return when everything is stored."""
    once, rows = different(split.digests)
    if accelerator.is_main_process:
        _remove_damaged(store, once, draws)
    accelerator.wait_for_everyone()
    before = embedder.forward_batches
    computed = _Filling(store, split, np.sort(rows), draws, embedder, accelerator).run()
    # This also waits until all processes are done.
    work: list[tuple[int, int]] = gather_object([(computed, embedder.forward_batches - before)])
    if accelerator.is_main_process:
        store.note_use(once)
    images, model = sum(ours for ours, _ in work), embedder.model
    done = f"{images:,} computed" if images else f"all in the store, no {model} pass"
    times = f" x {draws} draws" if draws > 1 else ""
    log.info("%s embeddings: %s images%s, %s", model, f"{len(once):,}", times, done)
    log.debug("store %s", store.folder)
    for process, (ours, passes) in enumerate(work if images else [], start=1):
        log.debug("process %d of %d: computed %d of %d, %d %s passes", process, len(work), ours, images, passes, model)


def _remove_damaged(store: EmbeddingStore, digests: Digests, draws: int) -> None:
    for draw in range(draws):
        for path, damage in store.damaged(draw, digests).items():
            if store.is_remote:
                raise store.incomplete(f"is damaged ({path.name}: {damage})")
            if (wrong := store.remove_damaged(draw, path)) is not None:
                log.warning("%s: damaged (%s); it is computed again", path, wrong)


@dataclass
class _Filling:
    """One process's part in filling a store."""

    store: EmbeddingStore
    split: Split
    rows: Rows  # of different images, in order
    draws: int
    embedder: Embedder
    accelerator: Accelerator

    def run(self) -> int:
        """Compute missing embeddings until none is missing; return the number that this process computed."""
        missing = self._missing()
        if not missing.any():
            return 0
        if self.store.is_remote:
            raise self.store.incomplete(f"lacks {int(missing.sum()):,} of {missing.size:,} embeddings")
        if self.accelerator.is_main_process:
            _mention_older_stores(self.store.folder.parent)
        # Processes of one run begin at different images and so seldom compete for one.
        todo = np.flatnonzero(missing.any(0))
        first = self.accelerator.process_index * len(todo) // self.accelerator.num_processes
        todo = np.roll(todo, -first)
        computed, left, is_waiting = 0, int(missing.sum()), False
        claims = self.store.claims()
        try:
            with progress(self.embedder.work, left) as advance:
                while True:
                    ours = 0
                    for job, embeddings in self.embedder.embed(self._claimed(claims, todo), advance):
                        self.store.write(job.draw, job.digests, embeddings)
                        claims.give_back(job.draw, job.digests)
                        ours += len(job.digests)
                    missing = self._missing()
                    advance(left - ours - int(missing.sum()))  # those of others
                    computed, left = computed + ours, int(missing.sum())
                    if not left:
                        return computed
                    todo = todo[missing[:, todo].any(0)]
                    if not is_waiting:
                        log.info("waiting for another process that computes %d of these embeddings", left)
                    is_waiting = True
                    time.sleep(WAIT)
        finally:
            claims.close()

    def _missing(self) -> npt.NDArray[np.bool_]:
        """Return which images each draw lacks, bool [draws, images], after what other processes have written and removed."""
        digests = self.split.digests[self.rows]
        for draw in range(self.draws):
            self.store.index(draw).refresh()
        return np.stack([self.store.missing(draw, digests) for draw in range(self.draws)])

    def _claimed(self, claims: Claims, todo: Rows) -> Iterator[Job]:
        """Yield the missing images that nobody else is computing, a pack at a time, claimed just before they are yielded."""
        size = min(PACK, -(-len(todo) // self.accelerator.num_processes))
        for first in range(0, len(todo), size):
            some = self.rows[todo[first : first + size]]
            for draw in range(self.draws):
                free = claims.take(self.store.index(draw), draw, self.split.digests[some])
                if free.any():
                    yield Job(self.split.paths.at(some[free]), self.split.digests[some[free]], draw)


@cache
def _mention_older_stores(root: Path) -> None:
    """Say once that stores of earlier versions are of no use any more."""
    if older := older_stores(root):
        log.info(
            "%s: stores of version 0.6.0 or older are not read, their images are computed anew; aevlp store prune KEY --yes "
            "removes them (%s)",
            root,
            first_few(folder.name[:8] for folder in older),
        )
