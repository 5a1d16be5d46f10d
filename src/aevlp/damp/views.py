"""Views of an image, the whole and its tiles: a pure function of (seed, draw, digest of the image file, image size).

| symbol | argument | meaning                                             |
| ------ | -------- | --------------------------------------------------- |
| g      | grid     | the image is cut into g x g cells                   |
| r      | overlap  | greatest share of its size by which a cell is grown |
| T      | augment  | a flip, and sometimes one weak augmentation         |
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from aevlp.damp.augment import augmented
from aevlp.data.fingerprint import DIGEST
from aevlp.data.images import open_rgb

FLIP_SHARE = 0.5
AUGMENT_SHARE = 0.2


@dataclass(frozen=True)
class ViewSettings:
    """Everything that the pixels of a view depend on, except the draw and the image."""

    size: int
    grid: int
    overlap: float
    augment: bool
    seed: int
    released_code: bool = False  # floor-sized cells without overlap, bilinear, flips only

    @property
    def count(self) -> int:
        """Views per image: the whole and grid * grid tiles (grid 0: no tiles)."""
        return 1 + self.grid**2


@dataclass(frozen=True)
class Plan:
    """The random part of the V views of one image, drawn before any pixel is computed."""

    boxes: Tensor  # [V, 4], pixels
    flipped: npt.NDArray[np.bool_]  # [V]
    augmentation: npt.NDArray[np.int64]  # [V]: 0 none, 1 rotation, 2 colour jitter, 3 sharpness, 4 autocontrast
    amounts: npt.NDArray[np.float64]  # [V, 4] in [-1, 1): the angle; brightness, contrast, saturation, hue


def boxes(width: float, height: float, grid: int, rng: np.random.Generator | torch.Generator, overlap: float = 0.2) -> Tensor:
    """Return float [grid * grid + 1, 4]: the whole image, then the tiles row by row; left, top, right, bottom, in pixels.

    Each cell grows on its left and right by one draw from U(0, overlap) of its width, on its top and bottom by one draw of its
    height. The boxes are clipped to the image.
    """
    cells = grid * grid
    if isinstance(rng, torch.Generator):
        grown = torch.rand(cells, 2, generator=rng, dtype=torch.float64) * overlap
    else:
        grown = torch.from_numpy(rng.random((cells, 2)) * overlap)
    near = _cells(grid).double()
    side = torch.tensor([width, height], dtype=torch.float64)
    low = ((near - grown) * side / grid).clamp_min(0)
    high = torch.minimum((near + 1 + grown) * side / grid, side)
    whole = torch.tensor([[0.0, 0.0, width, height]], dtype=torch.float64)
    return torch.cat([whole, torch.cat([low, high], 1)])


def _cells(grid: int) -> Tensor:
    """Return (column, row) of every cell, row by row: int64 [grid * grid, 2]."""
    return torch.cartesian_prod(torch.arange(grid), torch.arange(grid)).flip(1)


def floor_boxes(width: int, height: int, grid: int) -> Tensor:
    """Return the boxes of the released code: cells of width // grid by height // grid pixels, without the rest."""
    cell = torch.tensor([max(width // grid, 1), max(height // grid, 1)])
    last = torch.tensor([width - 1, height - 1])  # an image of fewer pixels than cells repeats its last one
    low = torch.minimum(_cells(grid) * cell, last)
    return torch.cat([torch.tensor([[0, 0, width, height]]), torch.cat([low, low + cell], 1)]).double()


def plan_views(settings: ViewSettings, draw: int, digest: bytes, width: int, height: int) -> Plan:
    """Return the plan of the image whose file has this digest in the given draw (0 for the first epoch)."""
    identity = np.frombuffer(digest.ljust(DIGEST, b"\0"), dtype="<u4")  # numpy cuts null bytes off the end of a text
    # Views depend neither on the image's name nor on other images and their order.
    rng = np.random.default_rng([settings.seed, draw, *identity.tolist()])
    cut = boxes(width, height, settings.grid, rng, settings.overlap)
    flipped = rng.random(settings.count) < FLIP_SHARE
    augmentation = np.where(rng.random(settings.count) < AUGMENT_SHARE, rng.integers(1, 5, settings.count), 0)
    amounts = rng.uniform(-1, 1, (settings.count, 4))
    if settings.released_code:
        cut, augmentation = floor_boxes(width, height, settings.grid), np.zeros_like(augmentation)
    if not settings.augment:
        flipped, augmentation = np.zeros_like(flipped), np.zeros_like(augmentation)
    return Plan(cut, flipped, augmentation, amounts)


_RESIZE = {"bilinear": torch.ops.aten._upsample_bilinear2d_aa.out, "bicubic": torch.ops.aten._upsample_bicubic2d_aa.out}
"""The operators behind `interpolate`; writing into existing memory takes half the time."""


def _resize(pixels: Tensor, mode: str, out: Tensor) -> None:
    """Fill `out`, uint8 [S, S, 3], with an antialiased resize of uint8 [h, w, 3]."""
    x, y = pixels.permute(2, 0, 1)[None], out.permute(2, 0, 1)[None]
    if pixels.device.type == "cpu":
        _RESIZE[mode](x, list(out.shape[:2]), False, None, None, out=y)
    else:
        y.copy_(resized_as_floats(x, out.shape[0], mode))


def resized_as_floats(x: Tensor, size: int, mode: str) -> Tensor:
    """Resize uint8 [1, 3, h, w] to whole numbers 0..255, float [1, 3, size, size], on devices that do not resize bytes."""
    resized: Tensor = interpolate(x.float(), (size, size), mode=mode, antialias=True)
    return resized.round_().clamp_(0, 255)


def render(pixels: Tensor, plan: Plan, settings: ViewSettings, out: Tensor | None = None) -> Tensor:
    """Return the views of an image, uint8 [height, width, 3], on its device: uint8 [V, size, size, 3], in `out` if given.

    Boxes are cut at whole pixels. A view costs one cut and one resize, and more only if an augmentation was drawn.
    """
    height, width, _ = pixels.shape
    if out is None:
        out = pixels.new_empty((settings.count, settings.size, settings.size, 3))
    mode = "bilinear" if settings.released_code else "bicubic"
    for view, box, flipped, augmentation, amounts in zip(
        out, plan.boxes.tolist(), plan.flipped.tolist(), plan.augmentation.tolist(), plan.amounts.tolist(), strict=True
    ):
        left, top, right, bottom = map(round, box)
        left, top = min(left, width - 1), min(top, height - 1)  # at least one pixel wide and high
        cut = pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
        # Flipped while it is small; contiguous in both cases, for which resizing bytes is several times faster.
        _resize(cut.flip(1) if flipped else cut.contiguous(), mode, view)
        if augmentation:
            view.copy_(augmented(view, augmentation, amounts))
    return out


def decode(path: Path, settings: ViewSettings, digest: bytes | None = None) -> Tensor:
    """Return the pixels of an image file, uint8 [height, width, 3], no larger than its tiles need.

    With `digest`, a file whose content has another is refused.
    """
    return torch.from_numpy(np.array(open_rgb(path, at_least=max(settings.grid, 1) * settings.size, digest=digest)))


def views(path: Path, digest: bytes, draw: int, settings: ViewSettings) -> Tensor:
    """Return the views of an image file in one draw, uint8 [V, size, size, 3]."""
    pixels = decode(path, settings)
    return render(pixels, plan_views(settings, draw, digest, pixels.shape[1], pixels.shape[0]), settings)
