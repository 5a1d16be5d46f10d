"""A classifier as a folder on disk.

The folder loads with `transformers` alone: pipeline("image-classification", model=FOLDER, function_to_apply="sigmoid").
With a head of aevlp's own, or without a backbone, it does not: transformers refuses it, and `load_classifier` reads it.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image
from safetensors import SafetensorError

from aevlp.core.errors import UserError, one_line
from aevlp.core.files import cannot_write, write_json
from aevlp.models.checkpoint import ImageSettings, image_settings, pickled_only, quiet_loading, read_json
from aevlp.models.classifier import Classifier, CustomHead, replace_head
from aevlp.models.feature_classifier import WIDTH, FeatureClassifier, load_feature_classifier
from aevlp.models.heads import HEADS
from aevlp.models.heads.registry import OWN_TYPE

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def save_classifier(classifier: Classifier, folder: Path) -> None:
    """Writes the folder, whole, in place of an older one."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        if isinstance(classifier, FeatureClassifier):
            classifier.save(part)
        else:
            _save_network(classifier, part)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError | SafetensorError):
            raise cannot_write(folder, error) from error
        raise


def _save_network(classifier: Classifier, folder: Path) -> None:
    with quiet_loading():
        classifier.network.save_pretrained(folder)
    if classifier.own is not None:
        _mark(folder / "config.json", classifier.own)
    write_json(folder / "preprocessor_config.json", _processor(classifier.images))


def _mark(file: Path, own: CustomHead) -> None:
    """Makes a config that transformers refuses, and that tells `load_classifier` which head to make."""
    config = read_json(file)
    head = {"backbone_type": config["model_type"], "head": own.kind.name, "options": asdict(own.options), "width": own.width}
    write_json(file, {**config, "model_type": OWN_TYPE, OWN_TYPE: head})


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


def model_classes(folder: Path) -> list[str]:
    """The class names of the model in a folder, in its order, without loading it."""
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no trained model here (config.json is missing); is the training finished?")
    names = read_json(folder / "config.json").get("id2label") or {}
    return [names[key] for key in sorted(names, key=int)]


def takes_features(config: dict[str, Any]) -> bool:
    """Whether a model's config.json is that of a head without a backbone."""
    return config.get("model_type") == OWN_TYPE and WIDTH in config[OWN_TYPE]


def load_classifier(folder: Path) -> Classifier:
    """The classifier that `save_classifier` wrote."""
    from transformers import AutoModelForImageClassification

    if (problem := pickled_only(folder, "AutoModelForImageClassification")) is not None:
        raise UserError(f"{folder}: the model in it {problem}")
    if not (folder / "model.safetensors").is_file():
        raise UserError(f"{folder}: no trained model here (model.safetensors is missing); is the training finished?")
    config = read_json(folder / "config.json")
    own = None
    try:
        with quiet_loading():
            if takes_features(config):
                return load_feature_classifier(folder, config)
            if config.get("model_type") == OWN_TYPE:
                network, own = _load_own(folder, config)
            else:
                network = AutoModelForImageClassification.from_pretrained(
                    folder, local_files_only=True, use_safetensors=True, dtype=torch.float32
                )
    except Exception as error:
        raise UserError(f"{folder}: the model in it cannot be loaded ({one_line(error)})") from error
    return Classifier(network, image_settings(folder), own)


def _load_own(folder: Path, config: dict[str, Any]) -> tuple[PreTrainedModel, CustomHead]:
    """The network with a head of its own, and that head, from a folder with a marked config.

    Transformers names some weights in files otherwise than in memory, differently from version to version. So it is made to load
    all of them itself, into its own class with the head replaced.
    """
    import transformers

    saved = config.pop(OWN_TYPE)
    kind = HEADS[saved["head"]]
    own = CustomHead(kind, kind.options(**saved["options"]), saved["width"])
    plain: Any = getattr(transformers, config["architectures"][0])

    def make(self: PreTrainedModel, config: Any) -> None:
        plain.__init__(self, config)
        replace_head(self, own)

    with_head: Any = type(plain.__name__, (plain,), {"__init__": make})
    network, report = with_head.from_pretrained(
        folder,
        config=plain.config_class.from_dict({**config, "model_type": saved["backbone_type"]}),
        local_files_only=True,
        use_safetensors=True,
        dtype=torch.float32,
        output_loading_info=True,
    )
    if unfit := {*report["missing_keys"], *report["unexpected_keys"]}:
        raise ValueError(f"{len(unfit)} tensors are missing or superfluous, such as {min(unfit)}")
    return network, own
