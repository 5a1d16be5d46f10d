"""The model folder: a classifier on disk.

The folder loads with `transformers` alone: pipeline("image-classification", model=FOLDER, function_to_apply="sigmoid").
A classifier with a custom head or without a backbone is the exception: transformers refuses it, and `load_classifier` loads it.
"""

import math
import shutil
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from aevlp.core.errors import UserError
from aevlp.core.files import cannot_write, read_json, write_json
from aevlp.models.classifier import Classifier, CustomHead, replace_head
from aevlp.models.feature_classifier import FeatureClassifier
from aevlp.models.heads import HEADS
from aevlp.models.heads.registry import AEVLP_MODEL_TYPE
from aevlp.models.image_settings import image_settings
from aevlp.models.pretrained import WEIGHTS, quiet_loading, weights_problem
from aevlp.models.safe_loading import WEIGHT_SETTINGS, foreign_code, require_finite, unfit_tensors, why_not_loaded

FEATURE_WIDTH = "features"
"""Key in config.json of D for a classifier of features."""


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
    _share_weights(folder)
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
    _share_weights(folder)


def _share_weights(folder: Path) -> None:
    """Let those read the weights who may read the rest: safetensors makes files that only their owner can read."""
    for file in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", file)


def _described(custom: CustomHead) -> dict[str, Any]:
    return {"head": custom.kind.name, "options": asdict(custom.options)}


def model_classes(folder: Path) -> list[str]:
    """Return the class names of the model in a folder, in its order, without loading it."""
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no trained model here (config.json is missing); is the training finished?")
    return _class_names(read_json(folder / "config.json"), folder)


def _class_names(config: dict[str, Any], folder: Path) -> list[str]:
    """Return the class names in a model's config.json; refuse names that do not tell the outputs apart."""
    names = config.get("id2label")
    if not isinstance(names, dict) or set(names) != {str(i) for i in range(len(names))}:
        raise UserError(f"{folder}: id2label in config.json does not name the classes 0, 1, 2, ...; get the model again")
    listed = [names[str(i)] for i in range(len(names))]
    if not listed or not all(isinstance(name, str) and name for name in listed):
        raise UserError(f"{folder}: id2label in config.json has a class without a name; get the model again")
    if twice := [name for name, count in Counter(listed).items() if count > 1]:
        raise UserError(f"{folder}: id2label in config.json names two classes {twice[0]!r}; get the model again")
    return listed


def feature_width(config: dict[str, Any]) -> int | None:
    """Return D if a model's config.json is that of a classifier of features [N, D], else None."""
    if config.get("model_type") != AEVLP_MODEL_TYPE:
        return None
    width: int | None = config[AEVLP_MODEL_TYPE].get(FEATURE_WIDTH)
    return width


def load_classifier(folder: Path) -> Classifier:
    """Return the classifier that `save_classifier` wrote; refuse one whose weights are not all there, or are no numbers."""
    if (problem := weights_problem(folder, "AutoModelForImageClassification") or foreign_code(folder)) is not None:
        raise UserError(f"{folder}: the model in it {problem}")
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder}: no trained model here ({WEIGHTS} is missing); is the training finished?")
    config = read_json(folder / "config.json")
    classes = _class_names(config, folder)
    try:
        with quiet_loading():
            classifier = _load(folder, config, classes)
    except UserError:
        raise
    except Exception as error:  # loaders raise nearly anything on a file that is not theirs
        raise UserError(f"{folder}: the model in it cannot be loaded ({why_not_loaded(error)})") from error
    require_finite(classifier, f"{folder}: the model in it cannot be loaded")
    return classifier


def _load(folder: Path, config: dict[str, Any], classes: list[str]) -> Classifier:
    if feature_width(config) is not None:
        return _load_feature_classifier(folder, config, classes)
    custom = None
    if config.get("model_type") == AEVLP_MODEL_TYPE:
        network, report, custom = _load_with_custom_head(folder, config)
    else:
        network, report = transformers.AutoModelForImageClassification.from_pretrained(folder, **WEIGHT_SETTINGS)
    if unfit := unfit_tensors(report):
        raise ValueError(f"{len(unfit)} tensors are missing or superfluous, such as {unfit[0]}")
    return Classifier(network, image_settings(folder), custom)


def _load_feature_classifier(folder: Path, config: dict[str, Any], classes: list[str]) -> FeatureClassifier:
    saved = config[AEVLP_MODEL_TYPE]
    width, scale = saved[FEATURE_WIDTH], saved["scale"]
    if not (isinstance(scale, int | float) and math.isfinite(scale) and scale > 0):
        raise ValueError(f"the scale of its features is {scale}")
    custom = _saved_head(saved, width) if "head" in saved else None
    with torch.device("meta"):  # a width that the weights do not have takes no memory
        classifier = FeatureClassifier(width, scale, classes, custom)
    weights = load_file(folder / WEIGHTS)
    expected = {name: tensor.shape for name, tensor in classifier.network.state_dict().items()}
    found = {name: tensor.shape for name, tensor in weights.items()}
    if unfit := {name for name, _ in expected.items() ^ found.items()}:
        raise ValueError(f"{len(unfit)} tensors are missing or superfluous, such as {min(unfit)}")
    classifier.network.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, assign=True)
    return classifier


def _load_with_custom_head(folder: Path, config: dict[str, Any]) -> tuple[Any, dict[str, Any], CustomHead]:
    """Return the network with its custom head, the report of its loading, and the description of that head.

    The names of some weights differ between file and memory, and between versions of transformers. So transformers itself loads
    all of them, into a class of its own whose head is replaced.
    """
    saved = config.pop(AEVLP_MODEL_TYPE)
    custom = _saved_head(saved, saved["width"])
    plain = _network_class(config["architectures"][0])

    def make(self: transformers.PreTrainedModel, config: Any) -> None:
        plain.__init__(self, config)
        replace_head(self, custom)

    with_head: Any = type(plain.__name__, (plain,), {"__init__": make})
    settings = plain.config_class.from_dict({**config, "model_type": saved["backbone_type"]})
    network, report = with_head.from_pretrained(folder, config=settings, **WEIGHT_SETTINGS)
    return network, report, custom


def _network_class(name: str) -> Any:
    """Return the network of transformers with that name."""
    found: object = getattr(transformers, name)
    if not (isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)):
        raise ValueError(f"{name} is no network of transformers")
    return found


def _saved_head(saved: dict[str, Any], width: int) -> CustomHead:
    kind = HEADS[saved["head"]]
    return CustomHead(kind, kind.options(**saved["options"]), width)
