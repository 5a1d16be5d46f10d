"""Size and normalisation of a checkpoint's input images, from its preprocessor file."""

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aevlp.core.errors import UserError
from aevlp.core.files import read_json
from aevlp.core.options import Between

PROCESSOR_FILES = ("processor_config.json", "preprocessor_config.json")
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
IMAGE_SIZES = Between(8, 8192)
"""Sides of images that a network can take; the largest has 200 MB."""
HALF = (0.5, 0.5, 0.5)

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class ImageSettings:
    """Input images of a checkpoint: squares of `size` pixels, normalised with `mean` and `std`."""

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def image_settings(folder: Path) -> ImageSettings:
    """Return size, mean and std from a checkpoint's preprocessor file, or the model family's where the file lacks one."""
    config = read_json(folder / "config.json")
    vision = config.get("vision_config") or config
    if not isinstance(vision, dict):
        raise UserError(f"{folder}: vision_config in config.json is not a JSON object; get the checkpoint again")
    given = _preprocessor(folder, config)
    crop, size = given.get("crop_size"), given.get("size")
    size = crop if crop and (given.get("do_center_crop") or not size) else size or vision.get("image_size")
    if not size and isinstance(vision.get("num_patches"), int):  # SigLIP2 of free aspect ratio: a square of all its patches
        size = math.isqrt(vision["num_patches"]) * vision.get("patch_size", 16)
    if str(config.get("model_type")).startswith("siglip"):
        mean, std = HALF, HALF
    else:
        mean, std = (CLIP_MEAN, CLIP_STD) if "vision_config" in config else (IMAGENET_MEAN, IMAGENET_STD)
    mean, std = given.get("image_mean") or mean, given.get("image_std") or std
    if given.get("do_normalize") is False:
        mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if not (are_three_numbers(mean) and are_three_positive_numbers(std)):
        raise UserError(f"{folder}: the preprocessor's image_mean and image_std must be three numbers each, those of std above 0")
    return ImageSettings(_side(size or 224, folder), (mean[0], mean[1], mean[2]), (std[0], std[1], std[2]))


def are_three_numbers(value: object) -> bool:
    """Return whether `value` can be a mean or a std: one number per colour channel."""
    if not isinstance(value, list | tuple) or len(value) != 3:
        return False
    return all(isinstance(v, int | float) and math.isfinite(v) for v in value)


def are_three_positive_numbers(value: Any) -> bool:
    """Return whether `value` can be a std, which images are divided by."""
    return are_three_numbers(value) and all(v > 0 for v in value)


def _preprocessor(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the checkpoint's image processor, looked up in the order of transformers."""
    combined, alone = (folder / name for name in PROCESSOR_FILES)
    if combined.is_file() and isinstance(nested := read_json(combined).get("image_processor"), dict):
        return nested
    if alone.is_file():
        return read_json(alone)
    if isinstance(timm := config.get("pretrained_cfg"), dict):
        sides = timm.get("input_size")
        return {
            "size": sides[-1] if isinstance(sides, list) and sides else None,
            "image_mean": timm.get("mean"),
            "image_std": timm.get("std"),
        }
    log.warning("%s has no preprocessor_config.json; the usual image settings of its model family are used", folder)
    return {}


def _side(size: Any, folder: Path) -> int:
    """Return the side of the square that `size` describes: 224, [224, 224], {"shortest_edge": 224}, {"height", "width"}."""
    if isinstance(size, dict):
        size = [size[key] for key in ("height", "width", "shortest_edge", "longest_edge") if key in size][:2]
    sides = size if isinstance(size, list) and size else [size]
    if any(side != sides[0] for side in sides) or not isinstance(side := sides[0], int):
        raise UserError(f"{folder}: images must be squares, but the preprocessor's size is {size}")
    if side not in IMAGE_SIZES:
        raise UserError(f"{folder}: images must have {IMAGE_SIZES} pixels a side, but the preprocessor's size is {side}")
    return side
