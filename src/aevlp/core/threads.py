"""A function of many files, computed in threads (reading and decoding let go of the interpreter)."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def in_threads(
    function: Callable[[A], B], items: Sequence[A], workers: int | None, progress: Callable[[int], None] | None = None
) -> list[B]:
    """The function of each item, in their order; `progress` is called with the number done so far, from this thread."""
    results = []
    with ThreadPoolExecutor(workers or min(8, os.cpu_count() or 1)) as pool:
        for result in pool.map(function, items):  # left early (an interrupt), it cancels what is still queued
            results.append(result)
            if progress is not None:
                progress(len(results))
    return results
