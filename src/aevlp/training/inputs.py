"""Inputs of a classifier in batches: images, read ahead by threads, or features.

Threads, not processes: decoding and resizing release the interpreter's lock, and after a fork this process would copy every page
of memory that it writes to.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from aevlp.core.seeds import seed_for
from aevlp.data.dataset import Split
from aevlp.data.images import BadImage, pixels_of

Item = tuple[int, bool]  # index of an image, and whether it is flipped
AHEAD = 2  # batches
T = TypeVar("T")


class TrainingOrder(Sampler[Item]):
    """Every image once per epoch, shuffled, half of them flipped: a function of the seed and `epoch` alone."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed, self.epoch = count, seed, 1

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Item]:
        rng = np.random.default_rng(seed_for(self.seed, "order", self.epoch))
        order, flipped = rng.permutation(self.count), rng.random(self.count) < 0.5
        yield from zip(order.tolist(), flipped.tolist(), strict=True)


class PlainOrder(Sampler[Item]):
    """Every image once, in order: as it is, or flipped."""

    def __init__(self, count: int, *, flipped: bool = False) -> None:
        self.count, self.flipped = count, flipped

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Item]:
        yield from ((index, self.flipped) for index in range(self.count))


Batches = Iterable[tuple[Tensor, Tensor]]
"""(indices [B], inputs of these images on the device); can be iterated again and again."""


class Inputs(Protocol):
    """The inputs of a split."""

    def __len__(self) -> int: ...

    def batches(self, order: Sampler[Item], batch_size: int, accelerator: Accelerator) -> Batches:
        """Return this process's share of each batch, in that order."""
        ...


class _Items(Dataset[Item]):
    """The items themselves: the processes share out the indices before any image is read."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, item: Any) -> Item:
        index, flipped = item
        return index, flipped


@dataclass(frozen=True)
class ReadBatch(Generic[T]):
    """Images that were read together, in order."""

    items: list[T]
    """The readable ones."""
    pixels: Tensor
    """Their pixels, uint8 [items, S, S, 3]."""
    bad: list[tuple[T, BadImage]]
    """The unreadable ones, and why."""


def read_ahead(
    batches: Iterable[Sequence[T]], read: Callable[[T], npt.NDArray[np.uint8]], size: int, workers: int
) -> Iterator[ReadBatch[T]]:
    """Yield batches of items as pixels, read by threads a little ahead; `read` returns an item's pixels [size, size, 3].

    Batches are taken as they are needed, so `batches` may be endless.
    """

    def into(place: Tensor, item: T) -> None:
        place.numpy()[:] = read(item)

    waiting: deque[tuple[Sequence[T], Tensor, list[Future[None]]]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for items in batches:
            pixels = torch.empty((len(items), size, size, 3), dtype=torch.uint8)
            waiting.append((items, pixels, [pool.submit(into, *task) for task in zip(pixels, items, strict=True)]))
            if len(waiting) > AHEAD:
                yield _finished(*waiting.popleft())
        while waiting:
            yield _finished(*waiting.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


def _finished(items: Sequence[T], pixels: Tensor, reads: Sequence[Future[None]]) -> ReadBatch[T]:
    good, bad = [], []
    for place, (item, read) in enumerate(zip(items, reads, strict=True)):
        try:
            read.result()
            good.append(place)
        except BadImage as error:
            bad.append((item, error))
    return ReadBatch([items[place] for place in good], pixels[good] if bad else pixels, bad)


def _items(count: int, order: Sampler[Item], batch_size: int, accelerator: Accelerator) -> Iterable[tuple[Tensor, Tensor]]:
    """Return this process's share of each batch: indices, and whether each is flipped.

    A last batch that cannot be shared evenly is padded with images from the beginning.
    """
    items = DataLoader(_Items(count), batch_size=batch_size, sampler=order)
    shared: Iterable[tuple[Tensor, Tensor]] = accelerator.prepare_data_loader(items, device_placement=False)
    return shared


class ImageBatches:
    """Image files as (indices [B], pixels uint8 [B, S, S, 3] on the device), this process's share of each batch.

    Can be iterated again and again. An unreadable image is an error.
    """

    def __init__(
        self, paths: Sequence[Path], size: int, order: Sampler[Item], batch_size: int, workers: int, accelerator: Accelerator
    ) -> None:
        self.paths, self.size, self.workers, self.device = paths, size, workers, accelerator.device
        self.items = _items(len(paths), order, batch_size, accelerator)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        batches = (list(zip(index.tolist(), flipped.tolist(), strict=True)) for index, flipped in self.items)
        for batch in read_ahead(batches, self._pixels, self.size, self.workers):
            for _, error in batch.bad:
                raise error
            yield torch.tensor([index for index, _ in batch.items]), batch.pixels.to(self.device)

    def _pixels(self, item: Item) -> npt.NDArray[np.uint8]:
        index, flipped = item
        return pixels_of(self.paths[index], self.size, flipped=flipped)


@dataclass(frozen=True)
class ImageFiles:
    """Image files as inputs."""

    paths: Sequence[Path]
    size: int
    workers: int

    def __len__(self) -> int:
        return len(self.paths)

    def batches(self, order: Sampler[Item], batch_size: int, accelerator: Accelerator) -> ImageBatches:
        """Return batches of (indices [B], pixels uint8 [B, S, S, 3])."""
        return ImageBatches(self.paths, self.size, order, batch_size, self.workers, accelerator)


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features [N, V, D] on the CPU as inputs: of each image as it is and, where V is 2, flipped."""

    features: Tensor

    def __len__(self) -> int:
        return len(self.features)

    def batches(self, order: Sampler[Item], batch_size: int, accelerator: Accelerator) -> Batches:
        """Return batches of (indices [B], features float32 [B, D])."""
        return _FeatureBatches(self.features, _items(len(self), order, batch_size, accelerator), accelerator.device)


@dataclass(frozen=True, eq=False)
class _FeatureBatches:
    features: Tensor
    items: Iterable[tuple[Tensor, Tensor]]
    device: torch.device

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        last = self.features.shape[1] - 1
        for index, flipped in self.items:
            yield index, self.features[index, flipped.long().clamp(max=last)].float().to(self.device)


InputFactory = Callable[[Split], Inputs]
"""Split -> its inputs."""


def as_files(size: int, workers: int) -> InputFactory:
    """Return a factory of inputs that are read from image files."""
    return lambda split: ImageFiles(split.paths, size, workers)
