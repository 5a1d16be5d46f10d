"""Views of an image: the whole and its tiles, a pure function of (seed, draw, image name, image size).

| symbol | argument | meaning                                             |
| ------ | -------- | --------------------------------------------------- |
| g      | grid     | the image is cut into g x g cells                   |
| r      | overlap  | greatest share of its size by which a cell is grown |
| T      | augment  | flip, and now and then one weak change              |
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from aevlp.data.images import open_rgb

FLIP_SHARE = 0.5
CHANGE_SHARE = 0.2
ROTATION = 15.0  # degrees
JITTER = 0.2  # of brightness, contrast and saturation, and of the hue circle
SHARPNESS = 1.5


@dataclass(frozen=True)
class ViewSettings:
    """All that decides a view's pixels, but for the draw and the image."""

    size: int
    grid: int
    overlap: float
    augment: bool
    seed: int
    released_code: bool = False  # floor-sized cells without overlap, bilinear, flips only

    @property
    def count(self) -> int:
        """Views per image: the whole and grid * grid tiles."""
        return 1 + self.grid**2


@dataclass(frozen=True)
class Plan:
    """What to cut from one image and how to change it; the random part of V views, drawn before any pixel is touched."""

    boxes: Tensor  # [V, 4], pixels
    flipped: npt.NDArray[np.bool_]  # [V]
    change: npt.NDArray[np.int64]  # [V]: 0 none, 1 rotation, 2 colour jitter, 3 sharpness, 4 autocontrast
    amounts: npt.NDArray[np.float64]  # [V, 4] in [-1, 1): the angle; brightness, contrast, saturation, hue


def boxes(width: float, height: float, grid: int, rng: np.random.Generator | torch.Generator, overlap: float = 0.2) -> Tensor:
    """Float [grid * grid + 1, 4]: the whole image, then the tiles row by row; left, top, right, bottom, in pixels.

    Each cell grows on its left and right by one draw from U(0, overlap) of its width, on its top and bottom by one draw of its
    height; what leaves the image is cut off.
    """
    cells = grid * grid
    if isinstance(rng, torch.Generator):
        grown = torch.rand(cells, 2, generator=rng, dtype=torch.float64) * overlap
    else:
        grown = torch.from_numpy(rng.random((cells, 2)) * overlap)
    rows, columns = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
    near = torch.stack([columns.flatten(), rows.flatten()], 1).double()  # [R, 2], in cells
    side = torch.tensor([width, height], dtype=torch.float64)
    low = ((near - grown) * side / grid).clamp_min(0)
    high = torch.minimum((near + 1 + grown) * side / grid, side)
    whole = torch.tensor([[0.0, 0.0, width, height]], dtype=torch.float64)
    return torch.cat([whole, torch.cat([low, high], 1)])


def floor_boxes(width: int, height: int, grid: int) -> Tensor:
    """The boxes of the released code: cells of width // grid by height // grid pixels; the last columns and rows are lost."""
    cell = torch.tensor([max(width // grid, 1), max(height // grid, 1)])
    last = torch.tensor([width - 1, height - 1])  # an image of fewer pixels than cells repeats its last one
    rows, columns = torch.meshgrid(torch.arange(grid), torch.arange(grid), indexing="ij")
    low = torch.minimum(torch.stack([columns.flatten(), rows.flatten()], 1) * cell, last)
    return torch.cat([torch.tensor([[0, 0, width, height]]), torch.cat([low, low + cell], 1)]).double()


def _generator(seed: int, draw: int, name: str) -> np.random.Generator:
    """The generator of one image in one draw; it does not depend on the other images or on any order."""
    identity = np.frombuffer(blake2b(os.fsencode(name), digest_size=16).digest(), dtype="<u4")
    return np.random.default_rng([seed, draw, *identity.tolist()])


def plan_views(settings: ViewSettings, draw: int, name: str, width: int, height: int) -> Plan:
    """The views of the image called `name` in the given draw (0 for the first epoch)."""
    rng = _generator(settings.seed, draw, name)
    cut = boxes(width, height, settings.grid, rng, settings.overlap)
    flipped = rng.random(settings.count) < FLIP_SHARE
    change = np.where(rng.random(settings.count) < CHANGE_SHARE, rng.integers(1, 5, settings.count), 0)
    amounts = rng.uniform(-1, 1, (settings.count, 4))
    if settings.released_code:
        cut, change = floor_boxes(width, height, settings.grid), np.zeros_like(change)
    if not settings.augment:
        flipped, change = np.zeros_like(flipped), np.zeros_like(change)
    return Plan(cut, flipped, change, amounts)


def _changed(view: Image.Image, change: int, amounts: npt.NDArray[np.float64]) -> Image.Image:
    """The view after one weak change."""
    if change == 1:
        return view.rotate(ROTATION * amounts[0], Image.Resampling.BILINEAR)
    if change == 2:
        brightness, contrast, saturation = 1 + JITTER * amounts[:3]
        view = ImageEnhance.Brightness(view).enhance(brightness)
        view = ImageEnhance.Contrast(view).enhance(contrast)
        view = ImageEnhance.Color(view).enhance(saturation)
        hue, rest, value = view.convert("HSV").split()
        shift = round(256 * JITTER * amounts[3])
        return Image.merge("HSV", (hue.point([(h + shift) % 256 for h in range(256)]), rest, value)).convert("RGB")
    if change == 3:
        return ImageEnhance.Sharpness(view).enhance(SHARPNESS)
    return ImageOps.autocontrast(view)


def render(image: Image.Image, plan: Plan, settings: ViewSettings) -> npt.NDArray[np.uint8]:
    """Uint8 [V, size, size, 3]: the views of an RGB image, cut and resized from its pixels in one step each."""
    resample = Image.Resampling.BILINEAR if settings.released_code else Image.Resampling.BICUBIC
    views = np.empty((settings.count, settings.size, settings.size, 3), np.uint8)
    for i, (left, top, right, bottom) in enumerate(plan.boxes.tolist()):
        view = image.resize((settings.size, settings.size), resample, box=(left, top, right, bottom))
        if plan.flipped[i]:
            view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if plan.change[i]:
            view = _changed(view, int(plan.change[i]), plan.amounts[i])
        views[i] = np.asarray(view)
    return views


def views(path: Path, name: str, draw: int, settings: ViewSettings) -> npt.NDArray[np.uint8]:
    """Uint8 [V, size, size, 3]: the views of an image file in one draw; it is decoded once, no larger than its tiles need."""
    image = open_rgb(path, at_least=settings.grid * settings.size)
    return render(image, plan_views(settings, draw, name, *image.size), settings)
