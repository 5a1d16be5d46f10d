"""Options of DAMP, with the values that the paper uses for its data sets."""

from dataclasses import dataclass
from typing import Annotated, Literal

from aevlp.core.options import AtLeast, Between, Options


@dataclass(frozen=True)
class DampOptions(Options, section="damp"):
    """Dynamic augmented multi-focus pseudo-labelling."""

    grid: Annotated[int, Between(1, 64)] = 4
    """The image is cut into grid x grid tiles (CUB 5)."""
    overlap: Annotated[float, AtLeast(0)] = 0.2
    """Each side of a tile grows by up to this share of the tile; 0: no overlap."""
    augment: bool = True
    """Flip views, and sometimes rotate, jitter, sharpen or contrast them; false: resize only."""
    noise: bool = True
    """Add label-to-label noise to the text embeddings."""
    neighbours: Annotated[int, AtLeast(1)] | None = None
    """Number of similar classes that give noise to each class, itself included (VOC 20, COCO 62, NUS 50, CUB 312); null: all."""
    temperature: Annotated[float, AtLeast(1e-6)] = 0.01
    """Softmax temperature on the cosines (CUB 0.1)."""
    local_threshold: Annotated[float, AtLeast(0)] = 0.0
    """Score from which the best tile of a class counts; below it the worst tile counts (COCO, NUS 0.3; CUB 0.005)."""
    global_threshold: Annotated[float, AtLeast(0)] = 0.5
    """Least score of a positive pseudo-label (NUS 0.6; CUB 0.005)."""
    top_k: Annotated[int, AtLeast(0)] = 3
    """Most positive pseudo-labels per image (CUB 32)."""
    negative_fraction: Annotated[float, Between(0, 1)] = 0.2
    """Share of the classes, those with the lowest scores, that become negative pseudo-labels (COCO 0.3)."""
    negatives: Literal["lowest", "agreed"] = "lowest"
    """lowest: the classes with the lowest scores, averaged over the views; agreed: only those among the lowest in every view."""
    seed: Annotated[int, AtLeast(0)] = 0
    """Seed of the views. Runs that share it share the store, whatever their own seed."""
    draws: Annotated[int, AtLeast(1)] | None = None
    """Draws of views to make; later epochs recombine them tile by tile. null: one per epoch."""
    tune: bool = False
    """Choose temperature, global_threshold, top_k and negative_fraction for these images and this teacher first (aevlp tune)."""

    def draws_in(self, epochs: int) -> int:
        """Return the number of draws of views for so many epochs: at most one each; without epochs all, or one."""
        return min(self.draws or epochs, epochs) if epochs else self.draws or 1
