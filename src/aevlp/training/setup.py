"""The start of a training: labels, label source, classifier and optimizer. Whatever does not fit is refused here."""

import logging
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from aevlp.config.config import Config
from aevlp.config.run_options import TrainOptions
from aevlp.core.errors import UserError
from aevlp.data.dataset import Dataset, Split
from aevlp.losses import Loss
from aevlp.models.classifier import Classifier, backbone_of, build_classifier
from aevlp.models.feature_classifier import build_feature_classifier
from aevlp.models.options import ModelOptions
from aevlp.models.prompts import class_prompts
from aevlp.sources import Source
from aevlp.training.user_features import UserFeatures

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class RunSetup:
    """The parts of a run that do not depend on the epoch, with or without a training."""

    config: Config
    data: Dataset
    source: Source
    accelerator: Accelerator
    store_root: Path | None


@dataclass(frozen=True)
class TrainingSetup(RunSetup):
    """The parts of a training."""

    labels: Tensor  # int8 [N, C]: the labels that the loss may see
    classifier: Classifier
    features: UserFeatures | None  # features of the user's own; the classifier is then a head alone
    origin: str  # fingerprint of these features, or of the weights that the classifier begins with


def prepare_run(config: Config, data: Dataset, store_root: Path | None, accelerator: Accelerator) -> RunSetup:
    """Build the parts of a training, or of a run that trains nothing. Everything that can be refused is refused here."""
    config.thresholds.require_measurable(is_complete=data.val.truth is not None)
    if config.method.loss is not None:
        return prepare(config, data, store_root, accelerator)
    check_inputs(config, data)
    context = config.source_context(data.train, data.classes, store_root, accelerator, data.val)
    return RunSetup(config, data, config.method.source.make(context, config.source), accelerator, store_root)


def prepare(config: Config, data: Dataset, store_root: Path | None, accelerator: Accelerator) -> TrainingSetup:
    """Build the parts of a training. Everything that can be refused is refused here, before anything is written."""
    method, seed = config.method, config.run.seed
    assert method.loss is not None
    if config.train.batch_size % accelerator.num_processes:
        raise UserError(
            f"--train.batch_size {config.train.batch_size} cannot be shared by {accelerator.num_processes} processes; "
            "use a multiple of their number"
        )
    labels = training_labels(data.train, method.loss)
    features = check_inputs(config, data)  # before a model is loaded
    classifier: Classifier
    if features is None:
        classifier = build_classifier(config.model, data.classes, seed, method.head, config.head)
    else:
        scale = features.scale(data.train.names)
        classifier = build_feature_classifier(features.width, scale, data.classes, seed, method.head, config.head)
    context = config.source_context(data.train, data.classes, store_root, accelerator, data.val)
    source = method.source.make(context, config.source)
    origin = origin_of(config.model, features)
    return TrainingSetup(config, data, source, accelerator, store_root, labels, classifier, features, origin)


def check_inputs(config: Config, data: Dataset) -> UserFeatures | None:
    """Refuse prompts or features that do not fit the image set. Return the user's own features, if the run has any."""
    if config.method.source.asks_teacher:
        class_prompts(config.teacher.prompts, config.teacher.prompt, data.classes)
    if config.model.features is None or config.method.loss is None:
        return None
    features = UserFeatures(config.model.features)
    splits = [split for split in (data.train, data.val, data.test) if split is not None]
    for split in splits:
        features.rows(split.names, split.name)
    features.rows([name for split in splits for name in split.names])  # images in two splits may share a file name
    return features


def origin_of(options: ModelOptions, features: UserFeatures | None = None) -> str:
    """Return the fingerprint of what a classifier is made of: the user's own features, read unless given, or the backbone."""
    if options.features is None:
        return backbone_of(options).fingerprint
    return (features or UserFeatures(options.features)).fingerprint()


def training_labels(split: Split, loss: Loss) -> Tensor:
    """Return the labels that the loss may see, int8 [N, C]."""
    if not loss.needs_truth:
        return torch.from_numpy(split.observed)
    if split.truth is None:
        raise UserError(
            "--method full trains on complete labels, and those of the training images are not known to be: say so with "
            "--zeros negative (what is not given is absent) or --observe single (the set is fully labelled)"
        )
    return torch.from_numpy(split.truth)


def make_optimizer(classifier: Classifier, options: TrainOptions, source: Source | None = None) -> torch.optim.Optimizer:
    """Return the optimizer of the backbone, the head and the source's parameters, each with its own learning rate."""
    groups = [
        {"params": classifier.body(), "lr": options.learning_rate},
        {"params": classifier.head(), "lr": options.head_learning_rate},
    ]
    if source is not None and (own := source.parameters()):
        groups.append({"params": own, "lr": source.learning_rate})
    return torch.optim.Adamax(groups) if options.optimizer == "adamax" else torch.optim.Adam(groups)


def expected_positives(config: Config, data: Dataset, source: Source | None = None) -> float | None:
    """Return the expected number of positives per image: the user's, or an estimate; None if the method needs none."""
    if not config.method.wants_expected_positives or config.train.expected_positives is not None:
        return config.train.expected_positives
    if data.val.truth is not None:
        estimate, basis = float((data.val.truth == 1).sum(1).mean()), "the fully labelled validation images"
    else:
        found, basis = data.train.observed == 1, "the observed labels alone"
        if source is not None and (pseudo := source.evidence()) is not None:
            found |= (data.train.observed == 0) & (pseudo.numpy() == 1)
            basis = "the observed and the first pseudo-labels"
        estimate = float(found.sum(1).mean())
    log.info("expected positives per image: %.3f, estimated from %s (--train.expected_positives sets it)", estimate, basis)
    return estimate
