"""The classifier: a pre-trained backbone with a new head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from aevlp.core.errors import UserError, one_line
from aevlp.core.options import Options
from aevlp.core.seeds import seed_for
from aevlp.models.checkpoint import Checkpoint, ImageSettings, image_settings, local_checkpoint, quiet_loading, read_json
from aevlp.models.head_layers import places, pooled
from aevlp.models.heads import HeadKind
from aevlp.models.heads.registry import OWN_TYPE
from aevlp.models.options import ModelOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class CustomHead:
    """A head in place of the network's: what it is, its options and the width D of the features it sees."""

    kind: HeadKind
    options: Options
    width: int


class Classifier(nn.Module):
    """Pixels, or features computed from them before -> logits. Normalisation is part of it, so that images travel as bytes."""

    def __init__(self, network: PreTrainedModel, images: ImageSettings, own: CustomHead | None = None) -> None:
        super().__init__()
        self.own = own
        # Pixels come channel by channel last, and convolutions are fastest when their weights lie the same way.
        self.network: Any = network.to(memory_format=torch.channels_last)
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

    def forward(self, shown: Tensor) -> Tensor:
        """Logits [N, C] of uint8 pixels [N, S, S, 3], or of what `features` makes of them [N, D]."""
        if shown.ndim == 2:
            head = head_of(self.network)
            # Some of timm's networks end in a convolution of 1 x 1, which wants places.
            from_features: Tensor = head(shown[:, :, None, None]).flatten(1) if isinstance(head, nn.Conv2d) else head(shown)
            return from_features
        x = (shown.permute(0, 3, 1, 2).float() / 255 - self.mean) / self.std
        if self.own is not None and self.own.kind.sees_map:
            logits: Tensor = head_of(self.network)(last_map(self.network, x))
        else:
            logits = self.network(pixel_values=x).logits
        return logits

    def features(self, shown: Tensor) -> Tensor:
        """Float32 [N, D] of uint8 pixels [N, S, S, 3]: what the head sees, averaged over the places if it sees a map.

        Features are their own.
        """
        if shown.ndim == 2:
            return shown.float()
        seen: list[Tensor] = []
        with head_of(self.network).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
            self(shown)
        return pooled(seen[0].float())

    @property
    def penalty(self) -> Tensor:
        """A scalar to add to the loss: what the head's last pass in training has set, 0 for a head that sets none."""
        head = head_of(self.network)
        found: Tensor | None = getattr(head, "penalty", None)
        return next(head.parameters()).new_zeros(()) if found is None else found

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


def last_map(network: PreTrainedModel, x: Tensor) -> Tensor | None:
    """The last feature map of images [N, 3, S, S], as `places` takes it; None if the network does not show it."""
    if (timm := getattr(network, "timm_model", None)) is not None:
        found = timm.forward_features(x)
    else:
        # A network without a part of this name is its own base model, whose output has no such thing.
        found = getattr(network.base_model(pixel_values=x), "last_hidden_state", None)
    return found if isinstance(found, Tensor) and found.ndim in (3, 4) else None


def backbone_of(options: ModelOptions) -> Checkpoint:
    """The checkpoint of the backbone, on this machine."""
    return local_checkpoint(options.backbone, role="backbone", demo="backbone")


def build_classifier(
    options: ModelOptions,
    classes: Sequence[str],
    seed: int,
    head: HeadKind | None = None,
    head_options: Options | None = None,
) -> Classifier:
    """The backbone of `options` with a fresh layer for `classes` on top, or `head` in its place, drawn from the run's seed."""
    checkpoint = backbone_of(options)
    settings = image_settings(checkpoint.folder)
    images = ImageSettings(options.image_size, settings.mean, settings.std)
    where = f"--backbone {options.backbone}"
    if read_json(checkpoint.folder / "config.json").get("model_type") == OWN_TYPE:
        raise UserError(f"{where}: a model with a head of aevlp's own is no backbone; name the checkpoint it was made from")
    own = None
    with torch.random.fork_rng(), quiet_loading():
        network = _pretrained(checkpoint.folder, classes, where)
        if head is not None:
            own = CustomHead(head, head_options or head.options(), _width(network, images, head, where))
        torch.manual_seed(seed_for(seed, "head"))
        if own is not None:
            replace_head(network, own)
        else:
            for layer in head_of(network).modules():
                if isinstance(layer, nn.Linear | nn.Conv2d):
                    layer.reset_parameters()  # also where the checkpoint has a head of the same size
    classifier = Classifier(network, images, own)
    _probe(classifier, where)
    return classifier


def _pretrained(folder: Path, classes: Sequence[str], where: str) -> PreTrainedModel:
    """The checkpoint's network with a layer for `classes` on top; everything else has the checkpoint's weights."""
    from transformers import AutoModelForImageClassification

    try:
        network, report = AutoModelForImageClassification.from_pretrained(
            folder,
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
    head = {id(tensor) for tensor in head_of(network).state_dict(keep_vars=True).values()}
    ours = {name for name, tensor in network.state_dict(keep_vars=True).items() if id(tensor) in head}
    random = {*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])} - ours
    if random:
        raise UserError(f"{where}: its weights lack or do not fit {len(random)} tensors, such as {min(random)}")
    return network


def replace_head(network: PreTrainedModel, own: CustomHead) -> None:
    """Puts a new head of this kind in the place of the network's."""
    old = head_of(network)
    place = next(name for name, module in network.named_modules() if module is old)
    network.set_submodule(place, own.kind.make(own.width, network.config.num_labels, own.options))


@torch.no_grad()
def _width(network: PreTrainedModel, images: ImageSettings, head: HeadKind, where: str) -> int:
    """D of what a head of this kind would see."""
    with _fitting(network, images.size, where):
        if not head.sees_map:
            return Classifier(network, images).features(_black(images.size)).shape[1]
        features = last_map(network, torch.zeros(1, 3, images.size, images.size))
    if features is None:
        kind = type(network).__name__
        raise UserError(f"{where}: a {kind} shows no feature map, which the head {head.name} needs; use another backbone")
    return places(features).shape[2]


def _probe(classifier: Classifier, where: str) -> None:
    """Sends one image through: a size that does not fit shows now, and parameters without a part in the logits are frozen.

    Several processes would wait for the gradients of those for ever.
    """
    with _fitting(classifier.network, classifier.images.size, where):
        classifier.eval()(_black(classifier.images.size)).sum().backward()
    for parameter in classifier.parameters():
        parameter.requires_grad_(parameter.grad is not None)
        parameter.grad = None


def _black(size: int) -> Tensor:
    """One image, [1, S, S, 3]."""
    return torch.zeros(1, size, size, 3, dtype=torch.uint8)


@contextmanager
def _fitting(network: PreTrainedModel, size: int, where: str) -> Iterator[None]:
    """While it lasts, what goes wrong is that the network cannot take images of this size."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        made_for = getattr(getattr(network.config, "vision_config", network.config), "image_size", size)
        hint = "" if made_for == size else f"; it is made for --model.image_size {made_for}"
        raise UserError(f"--model.image_size {size}: the backbone of {where} cannot take it ({one_line(error)}){hint}") from error
