"""Forward passes over a stream of batches, at the speed of the model.

On a CPU every core has a batch of its own, so that no core waits for another while the next images are read. Anywhere else
the device has the next batch to do while the results of the one before are fetched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import TypeVar

import torch
from torch import Tensor

from aevlp.core.torch_threads import one_thread_per_core
from aevlp.training.inputs import ReadBatch

T = TypeVar("T")


def passes(
    batches: Iterable[ReadBatch[T]], compute: Callable[[Tensor], Tensor], *, in_threads: bool
) -> Iterator[tuple[ReadBatch[T], Tensor]]:
    """Each batch with what `compute` makes of its pixels, on the CPU, in order; of a batch without any image, nothing: [0].

    `in_threads`: `compute` is called from as many threads at once as torch uses, each of which has a core.
    """
    waiting: deque[tuple[ReadBatch[T], Callable[[], Tensor]]] = deque()
    with one_thread_per_core() if in_threads else nullcontext() as pool:
        ahead = 2 * torch.get_num_threads() if in_threads else 1

        def begun(pixels: Tensor) -> Callable[[], Tensor]:
            if pool is not None and len(pixels):
                return pool.submit(compute, pixels).result
            found = compute(pixels) if len(pixels) else torch.empty(0)
            return lambda: found

        for batch in batches:
            waiting.append((batch, begun(batch.pixels)))
            if len(waiting) > ahead:
                yield _fetched(*waiting.popleft())
        while waiting:
            yield _fetched(*waiting.popleft())


def _fetched(batch: ReadBatch[T], result: Callable[[], Tensor]) -> tuple[ReadBatch[T], Tensor]:
    return batch, result().cpu()
