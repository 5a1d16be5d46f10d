"""The model folder: a classifier on disk.

The folder loads with `transformers` alone: pipeline("image-classification", model=FOLDER, function_to_apply="sigmoid").
A classifier with a custom head or without a backbone is the exception: transformers refuses it, and `load_classifier` loads it.
"""

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from aevlp.core.errors import UserError, one_line
from aevlp.core.files import cannot_write, read_json, write_json
from aevlp.models.classifier import Classifier, CustomHead, replace_head
from aevlp.models.feature_classifier import FeatureClassifier
from aevlp.models.heads import HEADS
from aevlp.models.heads.registry import AEVLP_MODEL_TYPE
from aevlp.models.image_settings import image_settings
from aevlp.models.pretrained import WEIGHTS, pickle_problem, quiet_loading

FEATURE_WIDTH = "features"
"""Key in config.json of D for a classifier of features."""
_SAVED: dict[str, Any] = {"local_files_only": True, "use_safetensors": True, "dtype": torch.float32}


def save_classifier(classifier: Classifier, folder: Path) -> None:
    """Write the folder, whole, in place of an older one."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        if isinstance(classifier, FeatureClassifier):
            _save_feature_classifier(classifier, part)
        else:
            _save_image_classifier(classifier, part)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError | SafetensorError):
            raise cannot_write(folder, error) from error
        raise


def _save_image_classifier(classifier: Classifier, folder: Path) -> None:
    with quiet_loading():
        classifier.network.save_pretrained(folder)
    if (custom := classifier.custom_head) is not None:
        # This model type makes transformers refuse the folder, and tells `load_classifier` which head to make.
        config = read_json(folder / "config.json")
        head = {"backbone_type": config["model_type"], **_described(custom), "width": custom.width}
        write_json(folder / "config.json", {**config, "model_type": AEVLP_MODEL_TYPE, AEVLP_MODEL_TYPE: head})
    size = classifier.images.size
    processor = {
        "image_processor_type": "ViTImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"height": size, "width": size},  # else some processors would crop
        "resample": int(Image.Resampling.BICUBIC),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(classifier.images.mean),
        "image_std": list(classifier.images.std),
    }
    write_json(folder / "preprocessor_config.json", processor)


def _save_feature_classifier(classifier: FeatureClassifier, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    head = {} if classifier.custom_head is None else _described(classifier.custom_head)
    write_json(
        folder / "config.json",
        {
            "model_type": AEVLP_MODEL_TYPE,
            "problem_type": "multi_label_classification",
            "id2label": {str(i): name for i, name in enumerate(classifier.classes)},
            AEVLP_MODEL_TYPE: {FEATURE_WIDTH: classifier.width, "scale": classifier.scale, **head},
        },
    )
    save_file({name: value.contiguous().cpu() for name, value in classifier.network.state_dict().items()}, folder / WEIGHTS)


def _described(custom: CustomHead) -> dict[str, Any]:
    return {"head": custom.kind.name, "options": asdict(custom.options)}


def model_classes(folder: Path) -> list[str]:
    """Return the class names of the model in a folder, in its order, without loading it."""
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no trained model here (config.json is missing); is the training finished?")
    names = read_json(folder / "config.json").get("id2label") or {}
    return [names[key] for key in sorted(names, key=int)]


def feature_width(config: dict[str, Any]) -> int | None:
    """Return D if a model's config.json is that of a classifier of features [N, D], else None."""
    if config.get("model_type") != AEVLP_MODEL_TYPE:
        return None
    width: int | None = config[AEVLP_MODEL_TYPE].get(FEATURE_WIDTH)
    return width


def load_classifier(folder: Path) -> Classifier:
    """Return the classifier that `save_classifier` wrote."""
    if (problem := pickle_problem(folder, "AutoModelForImageClassification")) is not None:
        raise UserError(f"{folder}: the model in it {problem}")
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder}: no trained model here ({WEIGHTS} is missing); is the training finished?")
    config = read_json(folder / "config.json")
    custom = None
    try:
        with quiet_loading():
            if feature_width(config) is not None:
                return _load_feature_classifier(folder, config)
            if config.get("model_type") == AEVLP_MODEL_TYPE:
                network, custom = _load_with_custom_head(folder, config)
            else:
                network = transformers.AutoModelForImageClassification.from_pretrained(folder, **_SAVED)
    except Exception as error:
        raise UserError(f"{folder}: the model in it cannot be loaded ({one_line(error)})") from error
    return Classifier(network, image_settings(folder), custom)


def _load_feature_classifier(folder: Path, config: dict[str, Any]) -> FeatureClassifier:
    saved = config[AEVLP_MODEL_TYPE]
    custom = _saved_head(saved, saved[FEATURE_WIDTH]) if "head" in saved else None
    classifier = FeatureClassifier(saved[FEATURE_WIDTH], saved["scale"], model_classes(folder), custom)
    classifier.network.load_state_dict(load_file(folder / WEIGHTS))
    return classifier


def _load_with_custom_head(folder: Path, config: dict[str, Any]) -> tuple[transformers.PreTrainedModel, CustomHead]:
    """Return the network with its custom head, and the description of that head.

    The names of some weights differ between file and memory, and between versions of transformers. So transformers itself loads
    all of them, into a class of its own whose head is replaced.
    """
    saved = config.pop(AEVLP_MODEL_TYPE)
    custom = _saved_head(saved, saved["width"])
    plain: Any = getattr(transformers, config["architectures"][0])

    def make(self: transformers.PreTrainedModel, config: Any) -> None:
        plain.__init__(self, config)
        replace_head(self, custom)

    with_head: Any = type(plain.__name__, (plain,), {"__init__": make})
    settings = plain.config_class.from_dict({**config, "model_type": saved["backbone_type"]})
    network, report = with_head.from_pretrained(folder, config=settings, output_loading_info=True, **_SAVED)
    if unfit := {*report["missing_keys"], *report["unexpected_keys"]}:
        raise ValueError(f"{len(unfit)} tensors are missing or superfluous, such as {min(unfit)}")
    return network, custom


def _saved_head(saved: dict[str, Any], width: int) -> CustomHead:
    kind = HEADS[saved["head"]]
    return CustomHead(kind, kind.options(**saved["options"]), width)
