"""Forward passes over a stream of batches, at the speed of the model.

On a CPU every core computes a batch of its own, so that no core waits for another while the next images are read. Any other
device already has the next batch while the results of the previous one are fetched.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import TypeVar

import torch
from torch import Tensor

from aevlp.core.torch_threads import one_thread_per_core
from aevlp.training.inputs import ReadBatch

T = TypeVar("T")


def forward_batches(
    batches: Iterable[ReadBatch[T]], compute: Callable[[Tensor], Tensor], *, in_threads: bool
) -> Iterator[tuple[ReadBatch[T], Tensor]]:
    """Yield each batch with the result of `compute` on its pixels, on the CPU, in order; [0] for a batch without images.

    `in_threads`: `compute` is called from as many threads as torch uses, each on a core of its own.
    """
    waiting: deque[tuple[ReadBatch[T], Callable[[], Tensor]]] = deque()
    with one_thread_per_core() if in_threads else nullcontext() as pool:
        ahead = 2 * torch.get_num_threads() if in_threads else 1

        def submit(pixels: Tensor) -> Callable[[], Tensor]:
            if pool is not None and len(pixels):
                return pool.submit(compute, pixels).result
            found = compute(pixels) if len(pixels) else torch.empty(0)
            return lambda: found

        for batch in batches:
            waiting.append((batch, submit(batch.pixels)))
            if len(waiting) > ahead:
                yield _fetch(*waiting.popleft())
        while waiting:
            yield _fetch(*waiting.popleft())


def _fetch(batch: ReadBatch[T], result: Callable[[], Tensor]) -> tuple[ReadBatch[T], Tensor]:
    return batch, result().cpu()
