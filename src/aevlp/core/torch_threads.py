"""Threads of torch: on a CPU, many small computations on one core each are faster than one at a time on all cores."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch


@contextmanager
def one_thread_per_core(threads: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads (None: as many as torch uses), in each of which torch computes on one core."""
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads or before, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)  # for threads that start from now on


@contextmanager
def single_thread() -> Iterator[None]:
    """Make torch compute on one core: distributing steps of a few microseconds costs more than the steps."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
