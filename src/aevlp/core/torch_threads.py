"""Threads that have a core each: on a CPU, many small computations side by side are faster than one at a time on all cores."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def one_thread_per_core(threads: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """A pool of that many threads (None: as many as torch would use), in each of which torch computes on one core alone."""
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads or before, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # of threads that are started from now on


@contextmanager
def single_thread() -> Iterator[None]:
    """While it lasts, torch computes on one core: sharing out steps of a few microseconds costs more than they do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
