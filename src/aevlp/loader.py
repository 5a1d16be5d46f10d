"""Images as batches of bytes, in the order that the run's seed gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from aevlp.model import pixels_of
from aevlp.seeds import seed_for

Item = tuple[int, bool]  # which image, and whether it is flipped
EVALUATION_BATCH = 64


class Images(Dataset[tuple[int, Tensor]]):
    """Image files as (index, uint8 [S, S, 3])."""

    def __init__(self, paths: Sequence[Path], size: int) -> None:
        self.paths, self.size = paths, size

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, item: Item) -> tuple[int, Tensor]:
        index, flipped = item
        return index, torch.from_numpy(pixels_of(self.paths[index], self.size, flipped=flipped).copy())


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


def batches(
    paths: Sequence[Path], size: int, order: Sampler[Item], batch_size: int, workers: int
) -> DataLoader[tuple[int, Tensor]]:
    """(indices [B], pixels uint8 [B, S, S, 3]) of the images in the given order."""
    return DataLoader(Images(paths, size), batch_size=batch_size, sampler=order, num_workers=workers)
