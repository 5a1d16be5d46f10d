"""The probabilities of a run's model, or of its teacher, on a split of an image set: the basis of `eval` and `thresholds`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from accelerate import Accelerator

from aevlp.config.defaults import choose_defaults
from aevlp.core.engine import make_accelerator
from aevlp.core.errors import UserError
from aevlp.core.processes import EngineOptions
from aevlp.data.dataset import Split
from aevlp.data.load import DataOptions, load_split
from aevlp.inference.model_location import require_same_classes
from aevlp.models.model_folder import load_classifier
from aevlp.store.location import store_root
from aevlp.training.evaluate import Predict, by_classifier, by_teacher
from aevlp.training.run_folder import RunFolder
from aevlp.training.user_features import inputs_for


@dataclass(frozen=True, eq=False)
class SplitProbabilities:
    """A split of an image set and the probabilities [N, C] that a run's model or teacher gives its images."""

    classes: Sequence[str]
    split: Split
    found: npt.NDArray[np.float32]
    accelerator: Accelerator


def evaluate_run(
    run: RunFolder,
    data: Path,
    split_name: str,
    *,
    options: DataOptions,
    engine: EngineOptions,
    features: str | None,
    workers: int,
    store: str | None,
) -> SplitProbabilities:
    """Compute the probabilities of a run's model or teacher on one split of the image set at `data`."""
    classes, split = load_split(data, options, store_root(store), split_name)
    accelerator = make_accelerator(engine)
    predict: Predict
    if run.is_zero_shot:
        config = run.tuned(choose_defaults({}, run.config).config({}))
        if (result := run.read_whole_result()) is None:
            raise UserError(f"{run.path}: the run is not finished; continue with aevlp train DATA --out {run.path} --resume")
        require_same_classes(classes, result["classes"], data, run.path)
        context = config.source_context(split, classes, store_root(store), accelerator)
        predict = by_teacher(config.method.source.make(context, config.source), whole_image=config.method.whole_image)
    else:
        classifier = load_classifier(run.model).to(accelerator.device)
        require_same_classes(classes, classifier.classes, data, run.path)
        predict = by_classifier(classifier, inputs_for(classifier, features, workers), accelerator, run.model)
    return SplitProbabilities(classes, split, predict(split), accelerator)
