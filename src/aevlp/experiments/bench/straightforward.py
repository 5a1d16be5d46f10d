"""Views as one would write them first: whole decodes; crop, resize and change by PIL; a float tensor per view."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from aevlp.damp.augment import JITTER, ROTATION, SHARPNESS
from aevlp.damp.views import Plan, ViewSettings, plan_views


def decoded_twice(path: Path) -> tuple[Image.Image, Image.Image]:
    """The image for the global view, and the same decoded once more for the tiles."""
    return Image.open(path).convert("RGB"), Image.open(path).convert("RGB")


def views(path: Path, name: str, draw: int, settings: ViewSettings, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Float [V, 3, size, size]: the normalised views of an image file in one draw."""
    whole, parts = decoded_twice(path)
    return views_of(whole, parts, plan_views(settings, draw, name, *whole.size), settings.size, mean, std)


def views_of(
    whole: Image.Image, parts: Image.Image, plan: Plan, size: int, mean: Sequence[float], std: Sequence[float]
) -> Tensor:
    """Float [V, 3, size, size]: the first view cut from `whole`, the others from `parts`."""
    made = []
    for number, (left, top, right, bottom) in enumerate(plan.boxes.tolist()):
        crop = (parts if number else whole).crop((round(left), round(top), round(right), round(bottom)))
        view = crop.resize((size, size), Image.Resampling.BICUBIC)
        if plan.flipped[number]:
            view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if plan.augmentation[number]:
            view = _changed(view, int(plan.augmentation[number]), plan.amounts[number].tolist())
        made.append(_normalised(_to_tensor(view), mean, std))
    return torch.stack(made)


def _changed(view: Image.Image, change: int, amounts: Sequence[float]) -> Image.Image:
    """The view after one weak change: 1 rotation, 2 colour jitter, 3 sharpness, 4 autocontrast."""
    if change == 1:
        return view.rotate(ROTATION * amounts[0], Image.Resampling.BILINEAR)
    if change == 2:
        brightness, contrast, saturation, hue = amounts
        view = ImageEnhance.Brightness(view).enhance(1 + JITTER * brightness)
        view = ImageEnhance.Contrast(view).enhance(1 + JITTER * contrast)
        view = ImageEnhance.Color(view).enhance(1 + JITTER * saturation)
        colour, rest, value = view.convert("HSV").split()
        shift = round(256 * JITTER * hue)
        return Image.merge("HSV", (colour.point([(h + shift) % 256 for h in range(256)]), rest, value)).convert("RGB")
    if change == 3:
        return ImageEnhance.Sharpness(view).enhance(SHARPNESS)
    return ImageOps.autocontrast(view)


def _to_tensor(view: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(view)).permute(2, 0, 1).contiguous().float().div(255)


def _normalised(pixels: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    return (pixels - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
