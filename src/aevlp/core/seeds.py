"""Seeds by purpose and position, so that any worker, process or resumed run draws the same numbers."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Generator


def seed_for(seed: int, purpose: str, *position: int) -> int:
    """Return a 63-bit seed derived from the run's seed, a purpose and a position (an epoch, a process)."""
    text = ":".join([str(seed), purpose, *map(str, position)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1


def generator_for(seed: int, purpose: str, *position: int) -> Generator:
    """Return a generator of torch on the CPU, seeded for a purpose and a position."""
    import torch

    return torch.Generator().manual_seed(seed_for(seed, purpose, *position))
