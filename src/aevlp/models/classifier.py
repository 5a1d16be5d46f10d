"""The classifier of images: a pre-trained backbone with a new head."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from aevlp.core.errors import UserError, one_line
from aevlp.core.files import read_json
from aevlp.core.options import Options
from aevlp.core.seeds import seed_for
from aevlp.models.head_layers import by_position, pooled
from aevlp.models.heads import HeadKind
from aevlp.models.heads.registry import AEVLP_MODEL_TYPE
from aevlp.models.image_settings import ImageSettings, image_settings
from aevlp.models.options import ModelOptions
from aevlp.models.pretrained import Checkpoint, local_checkpoint, quiet_loading
from aevlp.models.safe_loading import WEIGHT_SETTINGS, require_finite, why_not_loaded

WIDEST_VECTOR = 16  # numbers of 32 bits that a processor handles at once


@dataclass(frozen=True)
class CustomHead:
    """A head that replaces the network's: its kind, its options and the width D of the features that it takes."""

    kind: HeadKind
    options: Options
    width: int


class Classifier(nn.Module):
    """Pixels, or features computed from them before -> logits. It normalises the pixels itself, so images travel as bytes."""

    def __init__(
        self, network: transformers.PreTrainedModel, images: ImageSettings, custom_head: CustomHead | None = None
    ) -> None:
        super().__init__()
        self.custom_head = custom_head
        self.layout = _layout_for(network)
        self.network: Any = network.to(memory_format=self.layout)
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

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits [N, C] of pixels, uint8 [N, S, S, 3], or of their features [N, D]."""
        if inputs.ndim == 2:
            head = head_of(self.network)
            # Some of timm's networks end in a 1 x 1 convolution, which takes a map.
            from_features: Tensor = head(inputs[:, :, None, None]).flatten(1) if isinstance(head, nn.Conv2d) else head(inputs)
            return from_features
        x = ((inputs.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.std).contiguous(memory_format=self.layout)
        if self.custom_head is not None and self.custom_head.kind.sees_map:
            logits: Tensor = head_of(self.network)(last_map(self.network, x))
        else:
            logits = self.network(pixel_values=x).logits
        return logits

    def features(self, inputs: Tensor) -> Tensor:
        """Return the head's input, float32 [N, D], for pixels, uint8 [N, S, S, 3]; a map is averaged over its positions.

        Features [N, D] are returned as they are.
        """
        if inputs.ndim == 2:
            return inputs.float()
        seen: list[Tensor] = []
        with head_of(self.network).register_forward_pre_hook(lambda _, head_inputs: seen.append(head_inputs[0])):
            self(inputs)
        return pooled(seen[0].float())

    @property
    def penalty(self) -> Tensor:
        """A scalar to add to the loss: the one that the head's last forward pass in training set, or 0."""
        head = head_of(self.network)
        found: Tensor | None = getattr(head, "penalty", None)
        return next(head.parameters()).new_zeros(()) if found is None else found

    def head(self) -> list[nn.Parameter]:
        """Return the trained parameters of the head."""
        return [parameter for parameter in head_of(self.network).parameters() if parameter.requires_grad]

    def body(self) -> list[nn.Parameter]:
        """Return the trained parameters of everything below the head."""
        head = {id(parameter) for parameter in head_of(self.network).parameters()}
        return [p for p in self.network.parameters() if p.requires_grad and id(p) not in head]


def _layout_for(network: nn.Module) -> torch.memory_format:
    """Return the layout of the network's weights and inputs: channels last, as pixels come and convolutions are fastest.

    With channels last, oneDNN writes past its workspace in the backward pass of a 1 x 1 convolution that skips pixels and takes
    fewer channels than a vector holds (16 with AVX-512, 8 with AVX2): a crash, a hang or wrong gradients
    (https://github.com/uxlfoundation/oneDNN/issues/6035). It does so if either the weights or the inputs have that layout.
    """
    is_at_risk = any(
        isinstance(layer, nn.Conv2d)
        and layer.kernel_size == (1, 1)
        and layer.stride != (1, 1)
        and layer.in_channels < WIDEST_VECTOR
        for layer in network.modules()
    )
    return torch.contiguous_format if is_at_risk else torch.channels_last


def head_of(network: nn.Module) -> nn.Module:
    """Return the layer that turns features into one logit per class."""
    timm: Any = getattr(network, "timm_model", None)
    found = getattr(network, "classifier", None) if timm is None else timm.get_classifier()
    if not isinstance(found, nn.Module):
        raise UserError(f"--backbone: a {type(network).__name__} has no layer called classifier; use another backbone")
    return found


def last_map(network: transformers.PreTrainedModel, x: Tensor) -> Tensor | None:
    """Return the last feature map of images [N, 3, S, S], as `by_position` takes it; None if the network has none."""
    if (timm := getattr(network, "timm_model", None)) is not None:
        found = timm.forward_features(x)
    else:
        # A network without a part of this name is its own base model, whose output has no such attribute.
        found = getattr(network.base_model(pixel_values=x), "last_hidden_state", None)
    return found if isinstance(found, Tensor) and found.ndim in (3, 4) else None


def backbone_of(options: ModelOptions) -> Checkpoint:
    """Return the checkpoint of the backbone, on this machine."""
    return local_checkpoint(options.backbone, role="backbone")


def build_classifier(
    options: ModelOptions,
    classes: Sequence[str],
    seed: int,
    head: HeadKind | None = None,
    head_options: Options | None = None,
) -> Classifier:
    """Return the backbone of `options` with a new linear layer for `classes`, or `head` instead, initialised from the seed."""
    checkpoint = backbone_of(options)
    settings = image_settings(checkpoint.folder)
    images = ImageSettings(options.image_size, settings.mean, settings.std)
    where = f"--backbone {options.backbone}"
    if read_json(checkpoint.folder / "config.json").get("model_type") == AEVLP_MODEL_TYPE:
        raise UserError(f"{where}: a model with a custom head cannot be a backbone; name the checkpoint it was made from")
    custom = None
    with torch.random.fork_rng(), quiet_loading():
        network = _pretrained(checkpoint.folder, classes, where)
        if head is not None:
            custom = CustomHead(head, head_options or head.options(), _width(network, images, head, where))
        torch.manual_seed(seed_for(seed, "head"))
        if custom is not None:
            replace_head(network, custom)
        else:
            for layer in head_of(network).modules():
                if isinstance(layer, nn.Linear | nn.Conv2d):
                    layer.reset_parameters()  # also where the checkpoint has a head of the same size
    classifier = Classifier(network, images, custom)
    _freeze_unused(classifier, where)
    return classifier


def _pretrained(folder: Path, classes: Sequence[str], where: str) -> transformers.PreTrainedModel:
    """Return the checkpoint's network with a layer for `classes` on top; everything else has the checkpoint's weights."""
    try:
        network, report = transformers.AutoModelForImageClassification.from_pretrained(
            folder,
            num_labels=len(classes),
            id2label=dict(enumerate(classes)),
            label2id={name: i for i, name in enumerate(classes)},
            problem_type="multi_label_classification",
            ignore_mismatched_sizes=True,
            **WEIGHT_SETTINGS,
        )
    except Exception as error:  # loaders raise nearly anything on a file that is not theirs
        raise UserError(f"{where}: not an image-classification checkpoint ({why_not_loaded(error)})") from error
    head = {id(tensor) for tensor in head_of(network).state_dict(keep_vars=True).values()}
    new = {name for name, tensor in network.state_dict(keep_vars=True).items() if id(tensor) in head}
    random = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])} - new
    if random:
        raise UserError(f"{where}: its weights lack or do not fit {len(random)} tensors, such as {min(random)}")
    require_finite(network, where)
    return network


def replace_head(network: transformers.PreTrainedModel, custom: CustomHead) -> None:
    """Replace the network's head by a new one of this kind."""
    old = head_of(network)
    path = next(name for name, module in network.named_modules() if module is old)
    network.set_submodule(path, custom.kind.make(custom.width, network.config.num_labels, custom.options))


@torch.no_grad()
def _width(network: transformers.PreTrainedModel, images: ImageSettings, head: HeadKind, where: str) -> int:
    """Return D of the features that a head of this kind would take."""
    with _size_errors(network, images.size, where):
        if not head.sees_map:
            return Classifier(network, images).features(_black(images.size)).shape[1]
        features = last_map(network, torch.zeros(1, 3, images.size, images.size))
    if features is None:
        kind = type(network).__name__
        raise UserError(f"{where}: a {kind} has no feature map, which the head {head.name} needs; use another backbone")
    return by_position(features).shape[2]


def _freeze_unused(classifier: Classifier, where: str) -> None:
    """Send one image through and freeze the parameters that the logits do not depend on; refuse a size that does not fit.

    Several processes would wait for the gradients of unused parameters for ever.
    """
    with _size_errors(classifier.network, classifier.images.size, where):
        classifier.eval()(_black(classifier.images.size)).sum().backward()
    for parameter in classifier.parameters():
        parameter.requires_grad_(parameter.grad is not None)
        parameter.grad = None


def _black(size: int) -> Tensor:
    """One image, [1, S, S, 3]."""
    return torch.zeros(1, size, size, 3, dtype=torch.uint8)


@contextmanager
def _size_errors(network: transformers.PreTrainedModel, size: int, where: str) -> Iterator[None]:
    """Within it, an error means that the network cannot take images of this size."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        made_for = getattr(getattr(network.config, "vision_config", network.config), "image_size", size)
        hint = "" if made_for == size else f"; it is made for --model.image_size {made_for}"
        raise UserError(f"--model.image_size {size}: the backbone of {where} cannot take it ({one_line(error)}){hint}") from error
