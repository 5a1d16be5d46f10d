"""Filling the store: every process of every run that needs the same shards takes those that nobody else is working on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from accelerate.utils import gather_object

from aevlp.core.locks import Claim
from aevlp.core.progress import progress
from aevlp.data.splits import Split
from aevlp.store.embedding_store import Embeddings, EmbeddingStore

if TYPE_CHECKING:
    from accelerate import Accelerator

log = logging.getLogger("aevlp")
WAIT = 0.5  # seconds between two looks at what others are scoring


@dataclass(frozen=True)
class Job:
    """Images to embed in one draw: files, and the names that seed their views."""

    paths: Sequence[Path]
    names: Sequence[str]
    draw: int


@dataclass(frozen=True)
class ShardJob(Job):
    """The images of a shard in one draw."""

    shard: int


class Embedder(Protocol):
    """What fills a store."""

    passes: int
    model: str
    """What it asks, for messages."""
    work: str
    """What it does, for the progress."""

    def embed(self, jobs: Iterable[ShardJob], advance: Callable[[int], None]) -> Iterator[tuple[ShardJob, Embeddings]]:
        """Each job with its float16 [images, V, K]; `advance` hears of finished images."""
        ...


def shard_job(split: Split, draw: int, shard: int, rows: range) -> ShardJob:
    """What there is to look at for a shard."""
    part = slice(rows.start, rows.stop)
    return ShardJob(split.paths[part], split.names[part], draw, shard)


def fill(store: EmbeddingStore, split: Split, draws: int, scorer: Embedder, accelerator: Accelerator) -> None:
    """Scores what the first `draws` draws lack, and what is damaged there anew. Returns when all of it is there."""
    if accelerator.is_main_process:
        _remove_damaged(store, draws)
    accelerator.wait_for_everyone()
    before = scorer.passes
    written = _score_missing(store, split, draws, scorer, accelerator)
    work: list[tuple[int, int]] = gather_object([(written, scorer.passes - before)])  # returns when all are done
    total = sum(written for written, _ in work)
    log.info("store %s: %d draw%s of %d images", store.folder, draws, "" if draws == 1 else "s", store.count)
    for process, (written, passes) in enumerate(work, start=1):
        done = f"scored {written} of {total} shards, {passes} {scorer.model} passes" if total else f"no {scorer.model} pass"
        log.info("process %d of %d: %s", process, len(work), done)


def _remove_damaged(store: EmbeddingStore, draws: int) -> None:
    for draw, shard, wrong in store.damaged(draws):
        # Another run may have found it too, and be about to remove it: only when it is gone or whole can we go on.
        while store.has(draw, shard) and store.damage(draw, shard) is not None:
            if (claim := store.claim(draw, shard)) is None:
                time.sleep(WAIT)
                continue
            if store.has(draw, shard) and store.damage(draw, shard) is not None:
                log.warning("%s: damaged (%s); it is scored anew", store.path(draw, shard), wrong)
                store.remove(draw, shard)
            claim.release()


def _score_missing(store: EmbeddingStore, split: Split, draws: int, scorer: Embedder, accelerator: Accelerator) -> int:
    """The number of shards that this process has scored; when it returns, none is missing."""
    missing = store.missing(draws)
    # Processes that work together begin at different places and so seldom meet.
    first = accelerator.process_index * len(missing) // accelerator.num_processes
    missing = [*missing[first:], *missing[:first]]
    is_waiting, ours, claims = False, set[tuple[int, int]](), dict[tuple[int, int], Claim]()
    total = sum(len(store.rows(shard)) for _, shard in missing)
    try:
        with progress(scorer.work, total) as advance:
            while missing:
                for job, embeddings in scorer.embed(_claimed(store, split, missing, claims), advance):
                    store.write(job.draw, job.shard, embeddings)
                    claims.pop((job.draw, job.shard)).release()
                    ours.add((job.draw, job.shard))
                by_others = [at for at in missing if store.has(*at) and at not in ours]
                advance(sum(len(store.rows(shard)) for _, shard in by_others))
                missing = [at for at in missing if not store.has(*at)]
                if missing and not is_waiting:
                    log.info("waiting for another process that scores %d shards of these images", len(missing))
                    is_waiting = True
                time.sleep(WAIT if missing else 0)
    finally:
        for claim in claims.values():  # of what was begun and not finished
            claim.release()
    return len(ours)


def _claimed(
    store: EmbeddingStore, split: Split, missing: Sequence[tuple[int, int]], claims: dict[tuple[int, int], Claim]
) -> Iterator[ShardJob]:
    """The missing shards that nobody else is working on, each claimed when its turn comes."""
    for draw, shard in missing:
        if (claim := store.claim(draw, shard)) is None:
            continue
        if store.has(draw, shard):
            claim.release()
        else:
            claims[draw, shard] = claim
            yield shard_job(split, draw, shard, store.rows(shard))
