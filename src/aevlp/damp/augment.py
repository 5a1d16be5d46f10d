"""The weak augmentations of a view, on any device: rotation, colour jitter, sharpness, autocontrast."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, conv2d, grid_sample

ROTATION = 15.0  # degrees
JITTER = 0.2  # of brightness, contrast and saturation, and of the hue circle
SHARPNESS = 1.5
GREY = (0.299, 0.587, 0.114)  # shares of red, green and blue


def augmented(view: Tensor, augmentation: int, amounts: Sequence[float]) -> Tensor:
    """Return a view, uint8 [S, S, 3], after one augmentation: 1 rotation, 2 colour jitter, 3 sharpness, 4 autocontrast.

    `amounts` in [-1, 1): the angle; or brightness, contrast, saturation and hue.
    """
    x = view.permute(2, 0, 1).contiguous().float()  # channels first: contiguous values are computed together
    if augmentation == 1:
        x = _rotated(x, ROTATION * amounts[0])
    elif augmentation == 2:
        x = _jittered(x, *(JITTER * amount for amount in amounts))
    elif augmentation == 3:
        x = _sharpened(x)
    else:
        x = _stretched(x)
    return x.round_().clamp_(0, 255).byte().permute(1, 2, 0)


def _rotated(x: Tensor, degrees: float) -> Tensor:
    """Rotate counter-clockwise about the centre; pixels from outside the view are black."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    matrix = torch.tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]], device=x.device)
    turned: Tensor = grid_sample(x[None], affine_grid(matrix, [1, *x.shape], align_corners=False), align_corners=False)[0]
    return turned


def _grey(x: Tensor) -> Tensor:
    """Return the luminance [1, S, S]."""
    return GREY[0] * x[:1] + GREY[1] * x[1:2] + GREY[2] * x[2:]


def _jittered(x: Tensor, brightness: float, contrast: float, saturation: float, hue: float) -> Tensor:
    """Scale brightness, contrast and saturation by 1 + their amount, then shift the hue by a share of the circle."""
    x = (x * (1 + brightness)).clamp_(0, 255)
    x = (x * (1 + contrast) - contrast * _grey(x).mean()).clamp_(0, 255)
    x = (x * (1 + saturation) - saturation * _grey(x)).clamp_(0, 255)
    return _hue_shifted(x, hue)


def _hue_shifted(x: Tensor, hue: float) -> Tensor:
    """Shift the hue of HSV; value and saturation stay."""
    value, brightest = x.max(0)
    chroma = value - x.amin(0)
    red, green, blue = x
    sector = torch.where(brightest == 0, green - blue, torch.where(brightest == 1, blue - red, red - green))
    # In sixths of the circle; a grey pixel has no hue and keeps its colour whatever this is.
    angle = sector / chroma.clamp_min(1e-6) + 2 * brightest + 6 * hue
    shifted = angle + torch.tensor([5.0, 3.0, 1.0], device=x.device).view(3, 1, 1)
    shifted = shifted.remainder_(6)
    return value - chroma * torch.minimum(shifted, 4 - shifted).clamp_(0, 1)


def _sharpened(x: Tensor) -> Tensor:
    """Extrapolate away from a smoothed view; the outermost pixels stay."""
    kernel = torch.tensor([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]], device=x.device) / 13
    inner = conv2d(x[:, None], kernel[None, None])[:, 0]
    smooth = x.clone()
    smooth[:, 1:-1, 1:-1] = inner
    return smooth + SHARPNESS * (x - smooth)


def _stretched(x: Tensor) -> Tensor:
    """Stretch every channel to 0..255; a constant channel stays."""
    low, high = x.amin((1, 2), keepdim=True), x.amax((1, 2), keepdim=True)
    return torch.where(high > low, (x - low) * 255 / (high - low).clamp_min(1), x)
