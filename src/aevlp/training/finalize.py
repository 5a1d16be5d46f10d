"""The figures of a trained run: thresholds, the evaluation of the best epoch's model, `result.json`."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aevlp.data.dataset import Split
from aevlp.training.baselines import Baselines, compare_with_baselines
from aevlp.training.evaluate import Metrics, evaluate
from aevlp.training.provenance import write_trained_on
from aevlp.training.results import labels_per_image, summarize
from aevlp.training.thresholds import Thresholds, thresholds_for, write_thresholds

if TYPE_CHECKING:
    from aevlp.training.run import TrainedRun

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class FinalEvaluation:
    """The probabilities of a run and their figures; the same in every process."""

    thresholds: Thresholds
    split: Split  # the test split or, without one, the validation split
    probabilities: npt.NDArray[np.float32]  # [N, C] of its images
    test: Metrics | None  # None: there is no test split
    val: Metrics
    baselines: Baselines | None  # on the validation images; None: none of their labels is known


def evaluate_best(trained: TrainedRun) -> FinalEvaluation:
    """Fit the thresholds on the validation images and evaluate the best epoch's model, or the teacher, on the test images."""
    setup, data, state = trained.setup, trained.setup.data, trained.state
    on_val = trained.predict(data.val)
    options, expected = setup.config.thresholds, setup.config.train.expected_positives
    thresholds = thresholds_for(data.val, data.classes, on_val, options, expected)
    positives = labels_per_image(None if state is None else state.expected_positives, thresholds)
    val = evaluate(on_val, data.val, data.classes, thresholds.above(on_val), positives)
    teacher = None if state is None else setup.source.scores(data.val, draws=1)
    baselines = compare_with_baselines(data.val, on_val, None if teacher is None else teacher.numpy(), setup.config.run.seed)
    if data.test is None:
        return FinalEvaluation(thresholds, data.val, on_val, None, val, baselines)
    on_test = trained.predict(data.test)
    test = evaluate(on_test, data.test, data.classes, thresholds.above(on_test))
    return FinalEvaluation(thresholds, data.test, on_test, test, val, baselines)


def write_result(trained: TrainedRun, final: FinalEvaluation) -> dict[str, Any]:
    """Write `thresholds.json`, then `result.json`, which makes the run a finished one; return the content of the latter."""
    result = summarize(trained.setup, trained.state, final.thresholds, final.test, final.val, final.baselines)
    for warning in result["warnings"]:
        log.debug("warning: %s", warning)  # into log.txt; the command ends with it
    if trained.setup.accelerator.is_main_process:
        trained.folder.require_there()
        write_thresholds(trained.folder, final.thresholds)
        if trained.state is not None:
            write_trained_on(trained.folder, trained.setup.data.train)
        trained.folder.write_result(result)
    return result
