"""Models to measure with: any shape, random weights, saved as checkpoint folders that the package's own loaders read."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import normalize
from transformers import AutoTokenizer, CLIPConfig, CLIPModel, ResNetConfig, ResNetForImageClassification

from aevlp.models.image_settings import CLIP_MEAN, CLIP_STD, IMAGENET_MEAN, IMAGENET_STD
from aevlp.models.pretrained import DEMO_CLIP
from aevlp.models.safe_loading import SETTINGS

BICUBIC = 3  # in the numbering of transformers
LONGEST_TEXT = 16  # tokens
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
RESNET_50: Mapping[str, Any] = {}  # the default shape of the configuration in transformers
RESNET_18: Mapping[str, Any] = {
    "embedding_size": 64,
    "hidden_sizes": [64, 128, 256, 512],
    "depths": [2, 2, 2, 2],
    "layer_type": "basic",
}


def save_clip(
    folder: Path, *, side: int = 224, patch: int = 16, width: int = 192, layers: int = 12, heads: int = 3, dimension: int = 512
) -> str:
    """Save a CLIP with the given vision tower (default: ViT-Ti/16) and a small text tower; return its name for `--teacher`."""
    folder.mkdir(parents=True)
    for name in TOKENIZER:
        shutil.copy(DEMO_CLIP / name, folder / name)
    tokenizer = AutoTokenizer.from_pretrained(folder, **SETTINGS)
    marks = {f"{mark}_token_id": getattr(tokenizer, f"{mark}_token_id") for mark in ("pad", "bos", "eos")}
    shape = {"hidden_size": width, "intermediate_size": 4 * width, "num_attention_heads": heads}
    words = {"num_hidden_layers": 2, "vocab_size": len(tokenizer), "max_position_embeddings": LONGEST_TEXT}
    config = CLIPConfig(
        text_config=shape | marks | words,
        vision_config=shape | {"num_hidden_layers": layers, "image_size": side, "patch_size": patch},
        projection_dim=dimension,
        **marks,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_model(CLIPModel(config), folder)
    save_processor(folder, "CLIPImageProcessor", side=side, mean=CLIP_MEAN, std=CLIP_STD)
    return str(folder)


def save_resnet(folder: Path, *, side: int = 224, **shape: Any) -> str:
    """Save a ResNet-50, or the ResNet that `shape` configures; return its name for `--backbone`."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        save_model(ResNetForImageClassification(ResNetConfig(**shape)), folder)
    save_processor(folder, "ConvNextImageProcessor", side=side, mean=IMAGENET_MEAN, std=IMAGENET_STD)
    return str(folder)


def save_model(model: Any, folder: Path) -> None:
    """Write config.json and model.safetensors; floats are stored as float16, and config.json asks for float32 on loading."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.dtype = torch.float32
    model.config.save_pretrained(folder)
    weights = {
        name: (value.half() if value.is_floating_point() else value).contiguous() for name, value in model.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes it private


def save_processor(folder: Path, kind: str, *, side: int, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """Write preprocessor_config.json: squash to side x side (bicubic), scale to [0, 1], normalise."""
    square = {"height": side, "width": side}
    settings = {
        "image_processor_type": kind,
        "do_convert_rgb": True,
        "do_resize": True,
        "size": square,
        "resample": BICUBIC,
        "do_center_crop": False,
        "crop_size": square,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(mean),
        "image_std": list(std),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "preprocessor_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


class DummyTeacher:
    """A teacher that computes nothing: it keeps the last images it got, and gives each text a random direction."""

    mean, std = CLIP_MEAN, CLIP_STD
    fingerprint = "dummy"
    is_thread_safe = True

    def __init__(self, image_size: int = 224, dimension: int = 512) -> None:
        self.image_size, self.dimension = image_size, dimension
        self.last_pixels = torch.empty(0)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return ones [N, 1]."""
        self.last_pixels = pixels
        return pixels.new_ones(len(pixels), 1)

    def encode_texts(self, texts: list[str]) -> Tensor:
        """Return unit vectors [C, K]."""
        return normalize(torch.randn(len(texts), self.dimension, generator=torch.Generator().manual_seed(0)), dim=1)
