"""A world of coloured squares, and a teacher and a backbone small enough for tests."""

import json
import time
import zlib
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

COLOURS = {
    "black": (0, 0, 0),
    "blue": (20, 20, 240),
    "green": (20, 200, 20),
    "red": (240, 20, 20),
    "violet": (230, 30, 230),
    "yellow": (240, 240, 20),
}
GREY = (128, 128, 128)


class ColourTeacher:
    """Sees how much of each colour a view shows; knows texts by the colour they name."""

    image_size = 16
    mean = (0.5, 0.5, 0.5)
    std = (0.5, 0.5, 0.5)
    fingerprint = "colours-1"

    def __init__(self) -> None:
        self.palette = torch.tensor([*COLOURS.values(), GREY]) / 127.5 - 1

    def to(self, device: torch.device) -> None:
        self.palette = self.palette.to(device)

    def encode_images(self, pixels: Tensor) -> Tensor:
        distance = torch.cdist(pixels.flatten(2).transpose(1, 2), self.palette)
        return (-10 * distance).softmax(-1).mean(1)[:, :-1] + 0.01

    def encode_texts(self, texts: list[str]) -> Tensor:
        return torch.tensor([[float(name in text) for name in COLOURS] for text in texts]) + 0.01


def teacher() -> ColourTeacher:
    return ColourTeacher()


class SlowTeacher(ColourTeacher):
    def encode_images(self, pixels: Tensor) -> Tensor:
        time.sleep(0.02)
        return super().encode_images(pixels)


def slow_teacher() -> ColourTeacher:
    return SlowTeacher()


class BlindTeacher(ColourTeacher):
    """Sees noise: what it returns depends on the image and tells nothing about its colours."""

    fingerprint = "blind-1"

    def encode_images(self, pixels: Tensor) -> Tensor:
        seeds = [zlib.crc32(view.numpy().tobytes()) for view in pixels]
        return torch.stack([torch.rand(len(COLOURS), generator=torch.Generator().manual_seed(seed)) for seed in seeds])


def blind_teacher() -> ColourTeacher:
    return BlindTeacher()


def write_world(folder: Path, *, train: int = 40, test: int = 16, seed: int = 0, size: tuple[int, int] = (48, 40)) -> Path:
    """PNGs with one to three squares of different colours on grey, and their full labels."""
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    lines = ["image,labels,split"]
    names = list(COLOURS)
    for number in range(train + test):
        picture = np.full((size[1], size[0], 3), GREY, np.uint8)
        shown = rng.choice(len(names), rng.integers(1, 4), replace=False)
        for colour in shown:
            side = int(rng.integers(8, 16))
            x, y = rng.integers(0, size[0] - side), rng.integers(0, size[1] - side)
            picture[y : y + side, x : x + side] = COLOURS[names[colour]]
        visible = [names[c] for c in shown if (picture == COLOURS[names[c]]).all(-1).sum() > 8]
        Image.fromarray(picture).save(folder / "images" / f"{number:03d}.png")
        lines.append(f"images/{number:03d}.png,{';'.join(visible)},{'train' if number < train else 'test'}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    (folder / "classes.txt").write_text("\n".join(names) + "\n")
    return folder


def write_backbone(folder: Path, *, seed: int = 0) -> Path:
    """A ResNet of a few thousand random weights, as a checkpoint folder."""
    from transformers import ResNetConfig, ResNetForImageClassification

    torch.manual_seed(seed)
    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3)
    ResNetForImageClassification(config).save_pretrained(folder)
    settings = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3, "size": {"height": 32, "width": 32}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder
