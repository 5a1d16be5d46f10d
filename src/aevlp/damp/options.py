"""Options of DAMP, with the values that the paper uses for its data sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from aevlp.core.errors import require
from aevlp.core.options import Options


@dataclass(frozen=True)
class DampOptions(Options):
    """Dynamic augmented multi-focus pseudo-labelling."""

    grid: int = 4
    """The image is cut into grid x grid tiles (CUB 5)."""
    overlap: float = 0.2
    """Each side of a tile grows by up to this share of the tile; 0: no overlap."""
    augment: bool = True
    """Flip views, and now and then rotate, jitter, sharpen or contrast them; false: resize only."""
    noise: bool = True
    """Add label-to-label noise to the text embeddings."""
    neighbours: int | None = None
    """Most similar classes that each class takes noise from, itself included (VOC 20, COCO 62, NUS 50, CUB 312); null: all."""
    temperature: float = 0.01
    """Softmax temperature on the cosines (CUB 0.1)."""
    local_threshold: float = 0.0
    """Score above which a class's best tile counts, and below which its worst does (COCO, NUS 0.3; CUB 0.005)."""
    global_threshold: float = 0.5
    """Least score of a positive pseudo-label (NUS 0.6; CUB 0.005)."""
    top_k: int = 3
    """Most positive pseudo-labels per image (CUB 32)."""
    negative_fraction: float = 0.2
    """Share of the classes, those with the lowest scores, that become negative pseudo-labels (COCO 0.3)."""
    negatives: Literal["lowest", "agreed"] = "lowest"
    """lowest: those are negative whose scores, averaged over the views, are the lowest; agreed: only those that are among so many
    lowest in every single view."""
    seed: int = 0
    """Seed of the views. Runs that share it share the store, whatever their own seed."""
    draws: int | None = None
    """Draws of views to make; later epochs recombine them tile by tile. null: one per epoch."""
    tune: bool = False
    """Choose temperature, global_threshold, top_k and negative_fraction for these images and this teacher first (aevlp tune)."""

    def __post_init__(self) -> None:
        """Checks the ranges."""
        require(self.grid >= 1, "damp.grid", "at least 1", self.grid)
        require(self.overlap >= 0, "damp.overlap", "at least 0", self.overlap)
        require(self.neighbours is None or self.neighbours >= 1, "damp.neighbours", "at least 1", self.neighbours)
        require(self.temperature > 0, "damp.temperature", "above 0", self.temperature)
        require(self.local_threshold >= 0, "damp.local_threshold", "at least 0", self.local_threshold)
        require(self.global_threshold >= 0, "damp.global_threshold", "at least 0", self.global_threshold)
        require(self.top_k >= 0, "damp.top_k", "at least 0", self.top_k)
        require(0 <= self.negative_fraction <= 1, "damp.negative_fraction", "from 0 to 1", self.negative_fraction)
        require(self.seed >= 0, "damp.seed", "at least 0", self.seed)
        require(self.draws is None or self.draws >= 1, "damp.draws", "at least 1", self.draws)

    def draws_in(self, epochs: int) -> int:
        """Draws of views to make for so many epochs: never more than one each."""
        return min(self.draws or epochs, epochs)
