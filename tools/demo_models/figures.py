"""Test figures of the two models, on scenes drawn for the purpose; the build reports them."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from sklearn.metrics import average_precision_score
from torch import Tensor

from aevlp.experiments.demo.scenes import CLASSES, demo_scene
from tools.demo_models import backbone_training, clip_training
from tools.demo_models.clip_model import SIDE
from tools.demo_models.others import OTHERS
from tools.demo_models.scenes import TrainingScenes

TEST_SEED = 900_001
"""Seed of the demo-style test scenes: not the demo's own."""

_GRID = 4


def zero_shot(model: Any, tokenizer: Any, *, count: int) -> dict[str, float]:
    """Return the mAP in percent of `a photo of a {class}.` on demo-style scenes: whole image, and with a 4 x 4 grid of tiles.

    The whole image is ranked by cosine; with tiles, by the mean of its softmax and the largest softmax of a tile.
    `base_rate` is the mAP of chance, `temperature` that of the softmax.
    """
    scenes = [demo_scene(TEST_SEED, "test", index) for index in range(count)]
    truth = np.array([[name in scene.areas for name in CLASSES] for scene in scenes])
    prompts = tokenizer([f"a photo of a {name}." for name in CLASSES], padding=True, return_tensors="pt")
    temperature = 1 / model.logit_scale.exp().item()
    with torch.no_grad():
        texts = torch.nn.functional.normalize(model.get_text_features(**prompts).pooler_output, dim=-1)
        rows = [torch.nn.functional.normalize(_embed(model, scene.image), dim=-1) @ texts.T for scene in scenes]
    cosines = torch.stack(rows)
    scores = (cosines / temperature).softmax(dim=-1)
    both = (scores[:, 0] + scores[:, 1:].amax(dim=1)) / 2
    return {
        "whole_image_mAP": mean_average_precision(truth, cosines[:, 0].numpy()),
        "with_tiles_mAP": mean_average_precision(truth, both.numpy()),
        "base_rate": round(100 * float(truth.mean()), 2),
        "temperature": round(temperature, 4),
        "scenes": count,
    }


def backbone_figures(model: Any, scenes: TrainingScenes) -> dict[str, float]:
    """Return the mAP in percent of the backbone over its own classes, on pre-training scenes that it has not seen."""
    names = sorted(OTHERS)
    truth = np.array([[name in areas for name in names] for areas in scenes.areas])
    logits = []
    with torch.no_grad():
        for pixels in (torch.from_numpy(scenes.pixels[at : at + 64]) for at in range(0, len(truth), 64)):
            pictures = clip_training.normalised(pixels, backbone_training.MEAN, backbone_training.STD)
            logits.append(model(pictures).logits)
    return {"mAP": mean_average_precision(truth, torch.cat(logits).numpy()), "scenes": len(truth)}


def mean_average_precision(truth: npt.NDArray[np.bool_], scores: npt.NDArray[np.float32]) -> float:
    """Return the mAP in percent, over the classes (columns) that occur; truth and scores are [images, classes]."""
    present = [c for c in range(truth.shape[1]) if truth[:, c].any()]
    return round(100 * float(np.mean([average_precision_score(truth[:, c], scores[:, c]) for c in present])), 2)


def _embed(model: Any, image: Image.Image) -> Tensor:
    """Return the embeddings of the whole image, then of the tiles, row by row, float[17, K]."""
    width, height = image.width / _GRID, image.height / _GRID
    boxes = [(0.0, 0.0, float(image.width), float(image.height))]
    boxes += [(x * width, y * height, (x + 1) * width, (y + 1) * height) for y in range(_GRID) for x in range(_GRID)]
    views = [np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BICUBIC, box=box)) for box in boxes]
    pixels = torch.from_numpy(np.stack(views)).permute(0, 3, 1, 2)
    features: Tensor = model.get_image_features(
        pixel_values=clip_training.normalised(pixels, clip_training.MEAN, clip_training.STD)
    ).pooler_output
    return features
