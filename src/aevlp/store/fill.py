"""Filling a store: every process of every run that needs the same shards takes those that nobody else is computing."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from accelerate import Accelerator
from accelerate.utils import gather_object

from aevlp.core.locks import Claim
from aevlp.core.progress import progress
from aevlp.data.dataset import Split
from aevlp.store.embedding_store import Embeddings, EmbeddingStore

log = logging.getLogger("aevlp")
WAIT = 0.5  # seconds between two looks at the shards of other processes


@dataclass(frozen=True)
class Job:
    """Images to embed in one draw: their files, and the names that seed their views."""

    paths: Sequence[Path]
    names: Sequence[str]
    draw: int


@dataclass(frozen=True)
class ShardJob(Job):
    """The images of a shard in one draw."""

    shard: int


class Embedder(Protocol):
    """A frozen model that fills a store."""

    forward_batches: int
    """Batches computed so far."""
    model: str
    """Name of the model in messages."""
    work: str
    """Name of the work in the progress bar."""

    def embed(self, jobs: Iterable[ShardJob], advance: Callable[[int], None]) -> Iterator[tuple[ShardJob, Embeddings]]:
        """Yield each job with its float16 [images, V, K]; call `advance` with the number of images just finished."""
        ...


def shard_job(split: Split, draw: int, shard: int, rows: range) -> ShardJob:
    """Return the job of a shard that holds these rows of the split."""
    part = slice(rows.start, rows.stop)
    return ShardJob(split.paths[part], split.names[part], draw, shard)


def fill(store: EmbeddingStore, split: Split, draws: int, embedder: Embedder, accelerator: Accelerator) -> None:
    """Compute the shards that the first `draws` draws lack, and the damaged ones again; return when all are stored."""
    if accelerator.is_main_process:
        _remove_damaged(store, draws)
    accelerator.wait_for_everyone()
    before = embedder.forward_batches
    written = _compute_missing(store, split, draws, embedder, accelerator)
    # This also waits until all processes are done.
    work: list[tuple[int, int]] = gather_object([(written, embedder.forward_batches - before)])
    shards, batches = (sum(counts) for counts in zip(*work, strict=True))
    model = embedder.model
    done = f"{batches:,} batches computed" if shards else f"all in the store, no {model} pass"
    log.info("%s embeddings: %s images, %s", model, f"{store.count:,}", done)
    log.debug("store %s: %d draw%s of %d images", store.folder, draws, "" if draws == 1 else "s", store.count)
    for process, (ours, passes) in enumerate(work if shards else [], start=1):
        log.debug("process %d of %d: scored %d of %d shards, %d %s passes", process, len(work), ours, shards, passes, model)


def _remove_damaged(store: EmbeddingStore, draws: int) -> None:
    for draw, shard, wrong in store.damaged(draws):
        # Another run may be about to remove it too: wait until the shard is gone or intact.
        while store.has(draw, shard) and store.damage(draw, shard) is not None:
            if (claim := store.claim(draw, shard)) is None:
                time.sleep(WAIT)
                continue
            if store.has(draw, shard) and store.damage(draw, shard) is not None:
                log.warning("%s: damaged (%s); it is computed again", store.path(draw, shard), wrong)
                store.remove(draw, shard)
            claim.release()


def _compute_missing(store: EmbeddingStore, split: Split, draws: int, embedder: Embedder, accelerator: Accelerator) -> int:
    """Compute missing shards until none is missing; return the number of shards that this process computed."""
    missing = store.missing(draws)
    # Processes of one run begin at different shards and so seldom compete for one.
    first = accelerator.process_index * len(missing) // accelerator.num_processes
    missing = [*missing[first:], *missing[:first]]
    is_waiting, ours, claims = False, set[tuple[int, int]](), dict[tuple[int, int], Claim]()
    total = sum(len(store.rows(shard)) for _, shard in missing)
    try:
        with progress(embedder.work, total) as advance:
            while missing:
                for job, embeddings in embedder.embed(_claimed(store, split, missing, claims), advance):
                    store.write(job.draw, job.shard, embeddings)
                    claims.pop((job.draw, job.shard)).release()
                    ours.add((job.draw, job.shard))
                by_others = [at for at in missing if store.has(*at) and at not in ours]
                advance(sum(len(store.rows(shard)) for _, shard in by_others))
                missing = [at for at in missing if not store.has(*at)]
                if missing and not is_waiting:
                    log.info("waiting for another process that computes %d shards of these images", len(missing))
                    is_waiting = True
                time.sleep(WAIT if missing else 0)
    finally:
        for claim in claims.values():  # of shards that were begun and not finished
            claim.release()
    return len(ours)


def _claimed(
    store: EmbeddingStore, split: Split, missing: Sequence[tuple[int, int]], claims: dict[tuple[int, int], Claim]
) -> Iterator[ShardJob]:
    """Yield the missing shards that nobody else is computing, each claimed just before it is yielded."""
    for draw, shard in missing:
        if (claim := store.claim(draw, shard)) is None:
            continue
        if store.has(draw, shard):
            claim.release()
        else:
            claims[draw, shard] = claim
            yield shard_job(split, draw, shard, store.rows(shard))
