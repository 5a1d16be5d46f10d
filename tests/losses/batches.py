"""Batches that a loss of any kind can be called with."""

from typing import Any

import torch
from torch import Tensor

from aevlp.losses import Loss
from tests.losses import collected

ROWS, CLASSES = 7, 11


def values_of(reads: str) -> list[float]:
    """What a third argument of that kind may hold; any that is not named here holds numbers from 0 to 1."""
    return {"pseudo": [-1.0, 0.0, 1.0], "soft_negative": [float("nan"), -1.0, 0.0, 0.3, 1.0]}.get(reads, [0.0, 0.3, 1.0])


def labels(seed: int, rows: int = ROWS, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    """float64 logits and labels in {1, 0, -1}; the first row is all unknown, others have several positives or negatives."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, generator=generator, dtype=torch.float64)
    observed = torch.randint(-1, 2, (rows, classes), generator=generator, dtype=torch.int8)
    observed[0] = 0
    return logits, observed


def third(reads: str | None, seed: int, rows: int = ROWS, classes: int = CLASSES) -> list[Tensor]:
    """The third argument of a loss that reads that, drawn at random, in a list; an empty one if it reads nothing."""
    if reads is None:
        return []
    generator = torch.Generator().manual_seed(1000 + seed)
    if reads == "pseudo":
        return [torch.randint(-1, 2, (rows, classes), generator=generator, dtype=torch.int8)]
    values = torch.rand(rows, classes, generator=generator, dtype=torch.float64)
    if reads == "soft_negative":
        values[torch.rand(rows, classes, generator=generator) < 0.3] = float("nan")
        values[torch.rand(rows, classes, generator=generator) < 0.3] = -1
    return [values]


def settings(loss: Loss) -> list[dict[str, Any]]:
    """The options to test a loss with: its defaults, and others where there are any."""
    other = collected("OTHER_OPTIONS").get(loss.name)
    return [{}] if other is None else [{}, other]


def keywords(
    loss: Loss, options: dict[str, Any], epoch: int = 3, *, expected: float = 2.9, cells: int = ROWS * CLASSES
) -> dict[str, Any]:
    """The keyword arguments of a loss in that epoch of 8, for those of its options that are not at their defaults."""
    given = loss.options(**options).at(epoch, 8, cells)
    return {**given, "expected_positives": expected} if loss.wants_expected_positives else given


def mean_positives(logits: Tensor) -> float:
    """The positives that an image is predicted to have: expecting as many, no regulariser says a thing."""
    return logits.sigmoid().sum(1).mean().item()
