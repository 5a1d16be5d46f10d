"""The classifier: a pre-trained backbone with a new head, saved as a standard folder.

The folder loads with `transformers` alone: pipeline("image-classification", model=FOLDER, function_to_apply="sigmoid").
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from safetensors import SafetensorError
from torch import Tensor, nn

from aevlp.checkpoints import ImageSettings, image_settings, local_checkpoint, quiet_loading
from aevlp.config import ModelOptions
from aevlp.data.images import open_rgb
from aevlp.errors import UserError
from aevlp.files import cannot_write, write_json
from aevlp.seeds import seed_for

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Classifier(nn.Module):
    """Pixels -> logits. Normalisation is part of it, so that images travel as bytes."""

    def __init__(self, network: PreTrainedModel, images: ImageSettings) -> None:
        super().__init__()
        # Pixels come channel by channel last, and convolutions are fastest when their weights lie the same way.
        self.network = network.to(memory_format=torch.channels_last)
        self.images = images
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(images.mean).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(images.std).view(3, 1, 1), persistent=False)

    @property
    def classes(self) -> list[str]:
        """The class names, in the order of the logits."""
        names = self.network.config.id2label
        return [names[i] for i in range(len(names))]

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits [N, C] of uint8 pixels [N, S, S, 3]."""
        x = (pixels.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.std
        logits: Tensor = self.network(pixel_values=x).logits
        return logits

    def head(self) -> list[nn.Parameter]:
        """The parameters outside the pre-trained part."""
        body = {id(parameter) for parameter in self.network.base_model.parameters()}
        return [parameter for parameter in self.network.parameters() if id(parameter) not in body]

    def body(self) -> list[nn.Parameter]:
        """The pre-trained parameters."""
        return list(self.network.base_model.parameters())


def build_classifier(options: ModelOptions, classes: Sequence[str], seed: int) -> Classifier:
    """The backbone of `options` with a fresh head for `classes`, drawn from the run's seed."""
    from transformers import AutoModelForImageClassification

    checkpoint = local_checkpoint(options.backbone, role="backbone", demo="backbone")
    settings = image_settings(checkpoint.folder)
    with torch.random.fork_rng(), quiet_loading():
        torch.manual_seed(seed_for(seed, "head"))
        try:
            network = AutoModelForImageClassification.from_pretrained(
                checkpoint.folder,
                local_files_only=True,
                num_labels=len(classes),
                id2label=dict(enumerate(classes)),
                label2id={name: i for i, name in enumerate(classes)},
                problem_type="multi_label_classification",
                ignore_mismatched_sizes=True,
                dtype=torch.float32,
            )
        except (ValueError, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"--backbone {options.backbone}: not an image-classification checkpoint ({reason})") from None
    return Classifier(network, ImageSettings(options.image_size, settings.mean, settings.std))


def pixels_of(path: Path, size: int, *, flipped: bool = False) -> npt.NDArray[np.uint8]:
    """Uint8 [size, size, 3]: the whole image, fully decoded, squashed by bicubic resizing as its saved processor says."""
    image = open_rgb(path).resize((size, size), Image.Resampling.BICUBIC)
    if flipped:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(image)


def save_classifier(classifier: Classifier, folder: Path) -> None:
    """Writes the standard folder, whole, in place of an older one."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        with quiet_loading():
            classifier.network.save_pretrained(part)
        write_json(part / "preprocessor_config.json", _processor(classifier.images))
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise cannot_write(folder, error) from error


def _processor(images: ImageSettings) -> dict[str, Any]:
    """A processor that squashes to S x S: some models' own would crop, unless told height and width."""
    return {
        "image_processor_type": "ViTImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"height": images.size, "width": images.size},
        "resample": int(Image.Resampling.BICUBIC),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(images.mean),
        "image_std": list(images.std),
    }


def load_classifier(folder: Path) -> Classifier:
    """The classifier that `save_classifier` wrote."""
    from transformers import AutoModelForImageClassification

    if not (folder / "model.safetensors").is_file():
        raise UserError(f"{folder}: no trained model here (model.safetensors is missing); is the training finished?")
    with quiet_loading():
        network = AutoModelForImageClassification.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    return Classifier(network, image_settings(folder))
