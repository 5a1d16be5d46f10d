"""Images as batches of bytes, in the order that the run's seed gives, read ahead by threads.

Threads, not processes: decoding and resizing do not hold Python's lock, and a fork would make this process copy every page of
memory that it writes to from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from aevlp.model import pixels_of
from aevlp.seeds import seed_for

if TYPE_CHECKING:
    from accelerate import Accelerator

Item = tuple[int, bool]  # which image, and whether it is flipped
AHEAD = 2  # batches


class TrainingOrder(Sampler[Item]):
    """Every image once per epoch, shuffled, half of them flipped; a function of the seed and `epoch` alone."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed, self.epoch = count, seed, 1

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Item]:
        rng = np.random.default_rng(seed_for(self.seed, "order", self.epoch))
        order, flipped = rng.permutation(self.count), rng.random(self.count) < 0.5
        yield from zip(order.tolist(), flipped.tolist(), strict=True)


class PlainOrder(Sampler[Item]):
    """Every image once, as it is, in order."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Item]:
        yield from ((index, False) for index in range(self.count))


class _Items(Dataset[Item]):
    """The items themselves: what is shared between the processes is which images, before any is read."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, item: Any) -> Item:
        index, flipped = item
        return index, flipped


class ImageBatches:
    """Image files as (indices [B], pixels uint8 [B, S, S, 3] on the device), this process's share of each batch.

    A last batch that cannot be shared evenly is filled up with images from the beginning. Can be gone through again and again.
    """

    def __init__(
        self, paths: Sequence[Path], size: int, order: Sampler[Item], batch_size: int, workers: int, accelerator: Accelerator
    ) -> None:
        self.paths, self.size, self.workers, self.device = paths, size, workers, accelerator.device
        items = DataLoader(_Items(len(paths)), batch_size=batch_size, sampler=order)
        self.items = accelerator.prepare_data_loader(items, device_placement=False)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        waiting: deque[tuple[Tensor, Tensor, list[Future[None]]]] = deque()
        pool = ThreadPoolExecutor(self.workers)
        try:
            for index, flipped in self.items:
                pixels = torch.empty((len(index), self.size, self.size, 3), dtype=torch.uint8)
                tasks = zip(pixels, index.tolist(), flipped.tolist(), strict=True)
                waiting.append((index, pixels, [pool.submit(self._read, *task) for task in tasks]))
                if len(waiting) > AHEAD:
                    yield self._finished(*waiting.popleft())
            while waiting:
                yield self._finished(*waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _read(self, place: Tensor, index: int, flipped: bool) -> None:
        place.numpy()[:] = pixels_of(self.paths[index], self.size, flipped=flipped)

    def _finished(self, index: Tensor, pixels: Tensor, reads: Sequence[Future[None]]) -> tuple[Tensor, Tensor]:
        for read in reads:
            read.result()
        return index, pixels.to(self.device)
