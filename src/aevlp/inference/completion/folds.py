"""Out-of-fold probabilities: every training image is scored by a model that was not trained on its labels."""

import logging
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
from accelerate import Accelerator

from aevlp.config.config import Config
from aevlp.core.seeds import seed_for
from aevlp.data.dataset import Dataset, data_fingerprint
from aevlp.models.model_folder import load_classifier
from aevlp.training.evaluate import probabilities
from aevlp.training.finalize import evaluate_best, write_result
from aevlp.training.run import run
from aevlp.training.run_folder import RunFolder
from aevlp.training.user_features import UserFeatures, inputs_for

log = logging.getLogger("aevlp")
Probabilities = npt.NDArray[np.float32]


def out_of_fold(
    config: Config, data: Dataset, base: RunFolder, folds: int, accelerator: Accelerator
) -> tuple[Probabilities, Probabilities]:
    """Return out-of-fold probabilities of the training and of the validation images, float32 [N, C] each.

    Each fold is trained like the run, into `folds/` of the run; a fold that an earlier call has finished there is not trained
    again. Each validation image is scored by one of the models, as a training image is, so that what is fitted on the one
    holds for the other.
    """
    config = replace(config, run=replace(config.run, report=False))
    splits = (data.train, data.val)
    fold_of = [_folds(len(split.names), folds, config.run.seed) for split in splits]
    found = tuple(np.empty((len(split.names), len(data.classes)), np.float32) for split in splits)
    features = "" if config.model.features is None else UserFeatures(config.model.features).fingerprint()
    for fold in range(folds):
        others = Dataset(data.classes, data.train.part(np.flatnonzero(fold_of[0] != fold)), data.val, None, data.place)
        folder = RunFolder(base.path / "folds" / f"{fold + 1}-of-{folds}-{_key(config, others, features)}")
        if folder.read_result() is None:
            log.info("fold %d of %d: training into %s", fold + 1, folds, folder.path)
            train_fold(config, others, folder, accelerator, resume=folder.config.is_file())
        classifier = load_classifier(folder.model).to(accelerator.device)
        inputs_of = inputs_for(classifier, config.model.features, config.train.workers)
        for split, own, table in zip(splits, fold_of, found, strict=True):
            rows = np.flatnonzero(own == fold)
            if len(rows):
                table[rows] = probabilities(classifier, inputs_of(split.part(rows)), accelerator)
    return found[0], found[1]


def train_fold(config: Config, data: Dataset, folder: RunFolder, accelerator: Accelerator, *, resume: bool) -> None:
    """Train one fold's model, or resume its training; `result.json` in its folder marks it as finished."""
    with run(config, data, folder, accelerator, resume=resume) as trained:
        write_result(trained, evaluate_best(trained))


def _folds(count: int, folds: int, seed: int) -> npt.NDArray[np.intp]:
    """Return the fold 0..folds-1 of each image, [count]; the sizes of the folds differ by at most one."""
    return np.random.default_rng(seed_for(seed, "folds")).permutation(count) % folds


def _key(config: Config, data: Dataset, features: str = "") -> str:
    """Return a name for the training, so that another training has another folder. `features` names the user's, if any."""
    # Options that decide only where and how fast things are computed are left out.
    alike = replace(config, train=replace(config.train, workers=1), teacher=replace(config.teacher, batch_size=None))
    settings = {key: value for key, value in alike.as_recipe().items() if key not in ("recipe", "device", "store")}
    return blake2b(f"{settings} {data_fingerprint(data)}{features}".encode(), digest_size=6).hexdigest()
