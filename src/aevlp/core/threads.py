"""Threads for reading and decoding files, which release the interpreter's lock."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")
CHUNK = 32  # items of one call: a call costs as much as reading a small file
QUEUED = 300  # calls that wait for a thread, at most


def in_threads(
    function: Callable[[A], B], items: Sequence[A], workers: int | None, progress: Callable[[int], None] | None = None
) -> list[B]:
    """Return the function of each item, in order. `progress` gets the number done so far, in the calling thread."""
    threads = workers or min(8, os.cpu_count() or 1)
    size = max(1, min(CHUNK, len(items) // (4 * threads)))  # few items are shared out one by one
    chunks = range(0, len(items), size)
    results: list[B] = []

    def compute(first: int) -> list[B]:
        return [function(item) for item in items[first : first + size]]

    with ThreadPoolExecutor(threads) as pool:
        # A queue of a million calls would take much memory. On an interrupt, the pool cancels what is still queued.
        for place in range(0, len(chunks), QUEUED):
            for some in pool.map(compute, chunks[place : place + QUEUED]):
                for result in some:
                    results.append(result)
                    if progress is not None:
                        progress(len(results))
    return results
