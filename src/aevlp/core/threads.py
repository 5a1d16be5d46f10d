"""Threads for reading and decoding files, which release the interpreter's lock."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")
QUEUED = 10_000  # calls that wait for a thread, at most


def in_threads(
    function: Callable[[A], B], items: Sequence[A], workers: int | None, progress: Callable[[int], None] | None = None
) -> list[B]:
    """Return the function of each item, in order. `progress` gets the number done so far, in the calling thread."""
    results = []
    with ThreadPoolExecutor(workers or min(8, os.cpu_count() or 1)) as pool:
        # A queue of a million calls would take a gigabyte. On an interrupt, the pool cancels what is still queued.
        for first in range(0, len(items), QUEUED):
            for result in pool.map(function, items[first : first + QUEUED]):
                results.append(result)
                if progress is not None:
                    progress(len(results))
    return results
