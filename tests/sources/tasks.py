"""Tasks and moments without images, and runs of a source that stop and continue."""

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aevlp.sources import SOURCES, EpochContext, Source


def some_labels(images: int = 9, classes: int = 7, seed: int = 0) -> np.ndarray:
    """Int8 [N, C] with labels of all three kinds; nothing is observed in the first row."""
    observed = np.random.default_rng(seed).choice(np.array([0, 0, 0, 1, -1], np.int8), size=(images, classes))
    observed[0] = 0
    return observed


def task(observed: np.ndarray, *, seed: int = 0, learning_rate: float = 1e-5, processes: int = 1) -> Any:
    return SimpleNamespace(
        split=SimpleNamespace(observed=observed),
        observed=torch.from_numpy(observed),
        seed=seed,
        learning_rate=learning_rate,
        accelerator=SimpleNamespace(device=torch.device("cpu"), num_processes=processes),
    )


def make(name: str, observed: np.ndarray, *, seed: int = 0, processes: int = 1, **options: Any) -> Any:
    """The registered source of that name."""
    kind = SOURCES[name]
    return kind.make(task(observed, seed=seed, processes=processes), kind.options(**options))


def unexpected() -> Tensor:
    raise AssertionError("a pass over the images that nobody needs")


def moment(
    epoch: int, epochs: int = 10, *, m: float | None = None, p: Tensor | None = None, x: Tensor | None = None
) -> EpochContext:
    return EpochContext(epoch, epochs, m, unexpected if p is None else lambda: p, unexpected if x is None else lambda: x)


def random_moment(epoch: int, epochs: int, images: int, classes: int) -> EpochContext:
    """A moment of its own for every epoch: what the classifier says changes as it learns."""
    generator = torch.Generator().manual_seed(epoch)
    p, x = torch.rand(images, classes, generator=generator), torch.randn(images, 5, generator=generator)
    return moment(epoch, epochs, m=2.5, p=p, x=x)


def epoch_of(source: Source, epoch: int, epochs: int, shape: tuple[int, int]) -> Tensor:
    """[N, C]: what the batches of a whole epoch are told; batches, logits and steps are functions of the epoch."""
    now = random_moment(epoch, epochs, *shape)
    source.begin_epoch(now)
    generator = torch.Generator().manual_seed(100 + epoch)
    logits = torch.randn(shape, generator=generator)
    told = torch.empty(shape)
    for index in torch.randperm(shape[0], generator=generator).split(4):
        rows = source.rows(index, logits[index])
        for parameter in source.parameters():
            (gradient,) = torch.autograd.grad(rows.square().sum(), parameter)
            with torch.no_grad():
                parameter.sub_(0.1 * gradient)
        told[index] = rows.detach().float()
    source.end_epoch(now)
    return told


def through_a_file(state: dict[str, Any]) -> Any:
    """The state as a checkpoint gives it back."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)
