"""Completion of an image set's labels from the scores of a teacher and a model."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from accelerate import Accelerator

from aevlp.config.config import Config
from aevlp.core.errors import UserError
from aevlp.core.seeds import seed_for
from aevlp.damp.options import DampOptions
from aevlp.data.dataset import Dataset, Labels, Split
from aevlp.data.prevalence import observed_like
from aevlp.inference.completion.fusion import FitTarget, Fusion, Scores, estimated_fit_target, fit_fusion, fit_target
from aevlp.inference.completion.result import Completion, Proposals
from aevlp.inference.options import LabelOptions
from aevlp.models.model_folder import load_classifier
from aevlp.sources.damp import Damp
from aevlp.store.location import store_root
from aevlp.training.evaluate import probabilities
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import read_thresholds
from aevlp.training.user_features import inputs_for

log = logging.getLogger("aevlp")
FEW = 50  # labels, below which a measured or estimated figure is little more than a guess
FITTED_ON = 5000  # images at most
ABSENT = 0.01  # calibrated probability up to which a label is proposed to be absent if nothing was fitted on these images


@dataclass(frozen=True)
class LabelTask:
    """An image set to complete, and the predictors to use."""

    config: Config
    data: Dataset
    run: RunFolder | None  # None: no model is used
    uses_teacher: bool
    options: LabelOptions
    out: Path


def complete(task: LabelTask, accelerator: Accelerator) -> Completion:
    """Return the image set with its labels completed; no observed label is taken away."""
    _refuse_without_labels(task)
    scores = _scores(task, accelerator)
    data, options = task.data, task.options
    splits = {split.name: split for split in (data.train, data.val) if split.name == "train" or split.truth is None}
    target, target_scores = _target(task, scores)
    if target is None:
        fusion = None
        proposals = {name: _rule_proposals(task, scores[name], split) for name, split in splits.items()}
    else:
        fusion = fit_fusion(target_scores, target, options.min_precision, options.min_negative_precision)
        proposals = {name: _fused_proposals(fusion, scores[name], split) for name, split in splits.items()}
    return Completion(data, proposals, fusion, task.out)


def _scores(task: LabelTask, accelerator: Accelerator) -> dict[str, dict[str, npt.NDArray[np.float32]]]:
    """Return split name -> predictor -> scores [N, C], for the training and validation images."""
    data, config = task.data, task.config
    scores: dict[str, dict[str, npt.NDArray[np.float32]]] = {"train": {}, "val": {}}
    if task.uses_teacher:
        context = config.source_context(data.train, data.classes, store_root(config.run.store), accelerator, data.val)
        source = config.method.source.make(context, config.source)
        assert isinstance(source, Damp)
        source.check_teacher()
        if source.options.tune:
            source.fill()
        for split in (data.train, data.val):
            scores[split.name]["teacher"] = source.scores(split).numpy()
    if task.run is not None and task.options.folds is not None:
        from aevlp.inference.completion.folds import out_of_fold  # imported here to keep the chain of imports short

        found = out_of_fold(config, data, task.run, task.options.folds, accelerator)
        scores["train"]["model"], scores["val"]["model"] = found
    elif task.run is not None:
        classifier = load_classifier(task.run.model).to(accelerator.device)
        inputs_of = inputs_for(classifier, config.model.features, config.train.workers)
        for split in (data.train, data.val):
            scores[split.name]["model"] = probabilities(classifier, inputs_of(split), accelerator)
    return scores


def _target_splits(task: LabelTask) -> list[Split]:
    """Return the splits to fit on: fully labelled ones, or else all whose labels no predictor was trained on."""
    data = task.data
    knows_labels = task.run is not None and task.options.folds is None
    return [data.val] if knows_labels or data.val.truth is not None else [data.train, data.val]


def _refuse_without_labels(task: LabelTask) -> None:
    """Refuse what cannot be done without any label, before the work begins."""
    if any((split.evaluation_labels == 1).any() for split in _target_splits(task)):
        return
    root = task.data.train.root
    if task.options.min_precision is not None:
        raise UserError(f"--min-precision: {root} has no label to measure a precision by; leave it out")
    if task.uses_teacher and task.run is not None:
        raise UserError(f"{root} has no label to weight two predictors by; choose one with --witness teacher or --witness model")


def _target(task: LabelTask, scores: Mapping[str, Scores]) -> tuple[FitTarget | None, Scores]:
    """Return the target to fit the fusion to (None: there is no label), and the scores of the same images."""
    splits = _target_splits(task)
    labels: Labels = np.concatenate([split.evaluation_labels for split in splits])
    rows = np.unique(np.linspace(0, len(labels) - 1, FITTED_ON).round().astype(np.intp))
    observed = labels[rows]
    on = {name: np.concatenate([scores[split.name][name] for split in splits])[rows] for name in scores["val"]}
    if splits[0].truth is not None:
        rng = np.random.default_rng(seed_for(0, "weighing"))  # another purpose would draw other labels
        given = task.data.train.observed
        has_unknown = (given == 0).any(1)
        incomplete = given[has_unknown] if has_unknown.any() else given
        target = fit_target(observed_like(incomplete, observed, rng), observed)
        count = int(target.positive_weight.sum())
    else:
        count = int((observed == 1).sum())
        if count == 0:
            return None, on
        target = estimated_fit_target(on, observed, task.config.train.expected_positives)
    if count < FEW:
        log.warning("only %d labels to fit confidences to: they and their precision are little more than a guess", count)
    return target, on


def _fused_proposals(fusion: Fusion, scores: Scores, split: Split) -> Proposals:
    confidence, alone = fusion.confidence(scores), fusion.confidence_alone(scores)
    unknown = split.observed == 0
    doubted = split.observed == 1
    for name, values in alone.items():
        doubted &= values <= fusion.doubt[name]
    if len(alone) < 2:
        doubted[:] = False  # one predictor alone does not outweigh an observed label
    proposed = unknown & (confidence >= fusion.propose)
    return Proposals(confidence, alone, proposed, unknown & (confidence <= fusion.deny) & ~proposed, doubted)


def _rule_proposals(task: LabelTask, scores: Scores, split: Split) -> Proposals:
    """Propose labels if none is known: by DAMP's rule on the mean scores of all draws, or by the run's thresholds."""
    if "teacher" in scores:
        options = task.config.source
        assert isinstance(options, DampOptions)
        values = scores["teacher"].astype(np.float64)
        rank = np.argsort(np.argsort(-values, axis=1, kind="stable"), axis=1)
        proposed = (rank < options.top_k) & (values >= options.global_threshold)
        denied = rank >= values.shape[1] - int(options.negative_fraction * values.shape[1] + 1e-9)
    else:
        assert task.run is not None
        thresholds = read_thresholds(task.run.thresholds, task.data.classes)
        proposed = thresholds.above(scores["model"])
        values = scores["model"].astype(np.float64)
        if thresholds.calibration is not None:
            values = thresholds.calibration(values)
        denied = values <= ABSENT
    unknown = split.observed == 0
    nothing = np.zeros(values.shape, bool)
    return Proposals(values, dict.fromkeys(scores, values), proposed & unknown, denied & ~proposed & unknown, nothing)
