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
from aevlp.errors import UserError, one_line
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
        """The parameters of the new layer on top."""
        return [parameter for parameter in head_of(self.network).parameters() if parameter.requires_grad]

    def body(self) -> list[nn.Parameter]:
        """The pre-trained parameters that are trained."""
        head = {id(parameter) for parameter in head_of(self.network).parameters()}
        return [p for p in self.network.parameters() if p.requires_grad and id(p) not in head]


def head_of(network: nn.Module) -> nn.Module:
    """The layer that turns features into one logit per class."""
    timm: Any = getattr(network, "timm_model", None)
    found = getattr(network, "classifier", None) if timm is None else timm.get_classifier()
    if not isinstance(found, nn.Module):
        raise UserError(f"--backbone: a {type(network).__name__} has no layer called classifier; use another backbone")
    return found


def build_classifier(options: ModelOptions, classes: Sequence[str], seed: int) -> Classifier:
    """The backbone of `options` with a fresh head for `classes`, drawn from the run's seed."""
    from transformers import AutoModelForImageClassification

    checkpoint = local_checkpoint(options.backbone, role="backbone", demo="backbone")
    settings = image_settings(checkpoint.folder)
    where = f"--backbone {options.backbone}"
    with torch.random.fork_rng(), quiet_loading():
        try:
            network, report = AutoModelForImageClassification.from_pretrained(
                checkpoint.folder,
                local_files_only=True,
                num_labels=len(classes),
                id2label=dict(enumerate(classes)),
                label2id={name: i for i, name in enumerate(classes)},
                problem_type="multi_label_classification",
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                dtype=torch.float32,
            )
        except Exception as error:  # loaders raise nearly anything on a file that is not theirs
            raise UserError(f"{where}: not an image-classification checkpoint ({one_line(error)})") from error
        torch.manual_seed(seed_for(seed, "head"))
        for layer in head_of(network).modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                layer.reset_parameters()  # also where the checkpoint has a head of the same size
    head = {id(tensor) for tensor in head_of(network).state_dict(keep_vars=True).values()}
    ours = {name for name, tensor in network.state_dict(keep_vars=True).items() if id(tensor) in head}
    random = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])} - ours
    if random:
        raise UserError(f"{where}: its weights lack or do not fit {len(random)} tensors, such as {min(random)}")
    classifier = Classifier(network, ImageSettings(options.image_size, settings.mean, settings.std))
    _probe(classifier, where)
    return classifier


def _probe(classifier: Classifier, where: str) -> None:
    """Sends one image through: a size that does not fit shows now, and parameters without a part in the logits are frozen.

    Several processes would wait for the gradients of those for ever.
    """
    size = classifier.images.size
    try:
        classifier.eval()(torch.zeros(1, size, size, 3, dtype=torch.uint8)).sum().backward()
    except (ValueError, RuntimeError) as error:
        raise UserError(f"--model.image_size {size}: the backbone of {where} cannot take it ({one_line(error)})") from error
    for parameter in classifier.parameters():
        parameter.requires_grad_(parameter.grad is not None)
        parameter.grad = None


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
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError | SafetensorError):
            raise cannot_write(folder, error) from error
        raise


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
    try:
        with quiet_loading():
            network = AutoModelForImageClassification.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    except Exception as error:
        raise UserError(f"{folder}: the model in it cannot be loaded ({one_line(error)})") from error
    return Classifier(network, image_settings(folder))
