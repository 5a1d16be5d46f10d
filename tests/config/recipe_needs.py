"""What the training of a recipe needs, computed from the sizes of its networks, images and settings alone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from aevlp.config.config import Config
from aevlp.damp.options import DampOptions
from aevlp.data.dataset import hold_out

RATE = 10e12
"""Operations per second that a GPU is taken to sustain; a multiplication and an addition are two."""
FLOAT, HALF = 4, 2  # bytes
COPIES = 4  # of each weight: itself, its gradient and two moments of Adam
EMBEDDING, VIEW = 512, 224  # of CLIP ViT-B/16


@dataclass(frozen=True)
class Needs:
    """In GB (1e9 bytes) and hours."""

    images: int
    views: int
    draws: int
    store: float
    weights: float
    activations: float
    teacher: float
    scoring: float
    training: float

    @property
    def lines(self) -> list[str]:
        """As the head of a recipe has them."""
        memory, hours = self.weights + self.activations + self.teacher, self.scoring + self.training
        classifier = f"weights, gradients and Adam {_shown(self.weights)}, a batch {_shown(self.activations)}"
        parts = f"{classifier}, the teacher {_shown(self.teacher)}"
        product = f"{self.images:,} images x {self.views} views x {EMBEDDING} numbers x {HALF} bytes x {self.draws} draws"
        return [
            f"disk {_shown(self.store)} GB for the store: {product}",
            f"GPU memory {_shown(memory)} GB: {parts}",
            f"GPU time {_shown(hours)} h at {RATE / 1e12:.0f} TFLOP/s sustained: {_shown(self.scoring)} to score, once, "
            f"{_shown(self.training)} to train and evaluate",
        ]


def _shown(number: float) -> str:
    return f"{number:.1f}" if number >= 1 else f"{number:.2f}"


def needs(config: Config, train: int, test: int) -> Needs:
    """What a run of `config` needs on so many training and test images, if no epoch is saved by stopping early."""
    assert isinstance(config.source, DampOptions)
    assert (config.model.backbone, config.teacher.name) == ("microsoft/resnet-50", "openai/clip-vit-base-patch16")
    epochs, side = config.train.epochs, config.model.image_size
    images, held = map(len, hold_out(train))
    views, draws = config.source.grid**2 + 1, config.source.draws_in(epochs)
    seen = epochs * (3 * images + held) + test  # a step is a pass forward, and one back at twice its cost
    return Needs(
        images,
        views,
        draws,
        store=images * views * draws * EMBEDDING * HALF / 1e9,
        weights=COPIES * FLOAT * resnet50().num_parameters() / 1e9,
        activations=kept(config.train.batch_size, side) / 1e9,
        teacher=FLOAT * clip().num_parameters() / 1e9,
        scoring=images * views * draws * operations(clip().get_image_features, VIEW) / RATE / 3600,
        training=seen * operations(resnet50(), side) / RATE / 3600,
    )


@cache
def resnet50() -> Any:
    """The default backbone, without numbers in it."""
    import transformers

    with torch.device("meta"):
        return transformers.ResNetForImageClassification(transformers.ResNetConfig())


@cache
def clip() -> Any:
    """CLIP ViT-B/16, without numbers in it."""
    import transformers

    with torch.device("meta"):
        return transformers.CLIPModel(transformers.CLIPConfig(vision_config={"patch_size": 16, "image_size": VIEW}))


@cache
def operations(forward: Callable[..., Any], side: int) -> int:
    """Of a forward pass of one image."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        forward(pixel_values=torch.empty(1, 3, side, side, device="meta"))
    return counter.get_total_flops()


@cache
def kept(batch: int, side: int) -> int:
    """Bytes that a ResNet-50 keeps of a forward pass of `batch` images until the gradients are computed."""
    network = resnet50().train()
    weights = {parameter.untyped_storage()._cdata for parameter in network.state_dict(keep_vars=True).values()}
    found = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        found[storage._cdata] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = network(pixel_values=torch.empty(batch, 3, side, side, device="meta")).logits
    assert logits.requires_grad
    return sum(size for storage, size in found.items() if storage not in weights)
