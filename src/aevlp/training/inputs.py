"""How a classifier is shown the images of a split: as files, or as features."""

from __future__ import annotations

from collections.abc import Callable

from aevlp.config.config import Config
from aevlp.core.errors import UserError
from aevlp.data.splits import Split
from aevlp.models.classifier import Classifier
from aevlp.models.feature_classifier import FeatureClassifier
from aevlp.training.loader import ImageFiles, Inputs
from aevlp.training.user_features import UserFeatures

InputFactory = Callable[[Split], Inputs]
"""The images of a split as a classifier takes them."""


def as_files(size: int, workers: int) -> InputFactory:
    """Images read from their files."""
    return lambda split: ImageFiles(split.paths, size, workers)


def inputs_for(classifier: Classifier, config: Config) -> InputFactory:
    """How a trained classifier is shown images: as files, or by the features that `config` names if it knows nothing else."""
    if not isinstance(classifier, FeatureClassifier):
        if config.model.features is not None:
            what = f"--features {config.model.features}"
            raise UserError(f"{what}: the model was trained on images and takes no features; leave it out")
        return as_files(classifier.images.size, config.train.workers)
    if config.model.features is None:
        raise UserError("--features: the model was trained on features alone; name a .npz with those of these images")
    features = UserFeatures(config.model.features)
    if features.width != classifier.width:
        raise UserError(
            f"--features {features.file}: {features.width} numbers for each image, and the model takes {classifier.width}; "
            "compute them as for training"
        )
    return features
