"""Threads for reading and decoding files, which release the interpreter's lock."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def in_threads(
    function: Callable[[A], B], items: Sequence[A], workers: int | None, progress: Callable[[int], None] | None = None
) -> list[B]:
    """Return the function of each item, in order. `progress` gets the number done so far, in the calling thread."""
    results = []
    with ThreadPoolExecutor(workers or min(8, os.cpu_count() or 1)) as pool:
        for result in pool.map(function, items):  # on an interrupt, the pool cancels what is still queued
            results.append(result)
            if progress is not None:
                progress(len(results))
    return results
