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
from aevlp.inference.completion.claims import Claim, ClaimMeasurement, best_f1_cut, expected_claim
from aevlp.inference.completion.fusion import (
    TOGETHER,
    Doubles,
    FitTarget,
    Fusion,
    Scores,
    complete_fit_target,
    estimated_fit_target,
    fit_fusion,
    greatest_denied,
    greatest_doubted,
)
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
NOTHING_KNOWN = "no label to fit confidences to: proposed by the teacher's own rule, or the run's thresholds; unverified"
NOTHING_TO_FIND = {
    "complete": "nothing is proposed: the fully labelled images have no label beyond those that training images show",
    "estimated": "nothing is proposed: the predictors are not sure enough of any label that was not observed; "
    "fully labelled images (the split 'val'), or --train.expected_positives, help",
}
NOTHING_ABOVE = "nothing is proposed: no label that was not observed has enough confidence"
ABSENT = 0.01  # calibrated probability up to which a label is proposed to be absent if nothing was fitted on these images


@dataclass(frozen=True)
class LabelTask:
    """An image set to complete, and the predictors to use."""

    config: Config
    data: Dataset
    run: RunFolder | None  # None: no model is used
    knows_labels: bool  # whether the model was trained on labels of images that it scores
    uses_teacher: bool
    options: LabelOptions
    out: Path

    @property
    def is_measurable(self) -> bool:
        """True if there are fully labelled images that the predictors score as they score the images to complete."""
        return self.data.val.truth is not None and not self.knows_labels

    @property
    def splits(self) -> dict[str, Split]:
        """The splits whose labels are completed, by name."""
        splits = (self.data.train, self.data.val)
        return {split.name: split for split in splits if split.name == "train" or split.truth is None}


def complete(task: LabelTask, accelerator: Accelerator) -> Completion:
    """Return the image set with its labels completed; no observed label is taken away."""
    _refuse_without_labels(task)
    if task.knows_labels:
        log.warning(
            "the model was trained on labels of these images and hardly doubts them, so that nothing about its proposals can be "
            "measured; --folds 5 avoids that"
        )
    scores = _scores(task, accelerator)
    target, on = _target(task, scores)
    if target is None:
        proposals = {name: _rule_proposals(task, scores[name], split) for name, split in task.splits.items()}
        return Completion(task.data, proposals, NOTHING_KNOWN, task.out)
    fusion, held_out = fit_fusion(on, target)
    confidence = {name: fusion.confidence(scores[name]) for name in task.splits}
    propose, claim = _cut(task, confidence, held_out[TOGETHER], target)
    precision = task.options.min_negative_precision
    deny = min(greatest_denied(held_out[TOGETHER], target, precision), np.nextafter(propose, -np.inf))
    doubt = {name: greatest_doubted(held_out[name], target, precision) for name in fusion.alone}
    limits = _Limits(propose, deny, doubt)
    proposals = {
        name: _fused_proposals(fusion, limits, confidence[name], scores[name], split) for name, split in task.splits.items()
    }
    return Completion(task.data, proposals, claim, task.out)


@dataclass(frozen=True)
class _Limits:
    """Confidences at which something is proposed or doubted."""

    propose: float  # least confidence of a proposed label; inf: none is proposed
    deny: float  # greatest confidence of a proposed absence; -inf: none is proposed
    doubt: Mapping[str, float]  # predictor -> its greatest confidence alone at which it doubts an observed label


def _cut(task: LabelTask, confidence: Mapping[str, Doubles], held_out: Doubles, target: FitTarget) -> tuple[float, Claim | str]:
    """Return the least confidence of a proposed label, and the claim about the labels above it, or why there are none."""
    unknown = np.concatenate([confidence[name][split.observed == 0] for name, split in task.splits.items()])
    options = task.options
    if target.to_find == 0:
        return np.inf, NOTHING_TO_FIND[target.basis]
    if not task.is_measurable:
        cut = best_f1_cut(unknown) if options.min_confidence is None else options.min_confidence
        observed = np.concatenate([(split.observed == 1).sum(1) for split in task.splits.values()])
        proposed = unknown[unknown >= cut]
        return cut, expected_claim(proposed, target, float(observed.mean())) if len(proposed) else NOTHING_ABOVE
    measured = ClaimMeasurement(held_out, target, unknown)
    if options.min_precision is not None:
        cut = measured.precise_cut(options.min_precision)
        if cut == np.inf:
            return cut, (
                f"nothing is proposed: with {len(held_out)} fully labelled images, no cut is sure to keep precision "
                f"{options.min_precision:g}; more of them, a trained model (--run RUN --folds 5) or a lower precision help"
            )
    else:
        cut = best_f1_cut(unknown) if options.min_confidence is None else options.min_confidence
    return cut, measured.claim(cut) if (unknown >= cut).any() else NOTHING_ABOVE


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
    return [data.val] if task.knows_labels or data.val.truth is not None else [data.train, data.val]


def _refuse_without_labels(task: LabelTask) -> None:
    """Refuse what cannot be done without labels, before the work begins."""
    root = task.data.train.root
    if task.options.min_precision is not None and not task.is_measurable:
        if task.data.val.truth is not None:
            raise UserError(
                "--min-precision: the model was trained on these images, so that its precision on them cannot be measured; "
                "add --folds 5, or use --witness teacher"
            )
        raise UserError(
            f"--min-precision: {root} has no fully labelled images to measure a precision on; label some (50 or more) with all "
            "their labels as the split 'val', or use --min-confidence, whose precision is not verified"
        )
    if any((split.evaluation_labels == 1).any() for split in _target_splits(task)):
        return
    if task.uses_teacher and task.run is not None:
        raise UserError(f"{root} has no label to weight two predictors by; choose one with --witness teacher or --witness model")


def _target(task: LabelTask, scores: Mapping[str, Scores]) -> tuple[FitTarget | None, Scores]:
    """Return the target to fit the fusion to (None: there is no label), and the scores of the same images."""
    splits = _target_splits(task)
    labels: Labels = np.concatenate([split.evaluation_labels for split in splits])
    rows = np.unique(np.linspace(0, len(labels) - 1, FITTED_ON).round().astype(np.intp))
    labels = labels[rows]
    on = {name: np.concatenate([scores[split.name][name] for split in splits])[rows] for name in scores["val"]}
    if splits[0].truth is not None:
        rng = np.random.default_rng(seed_for(0, "weighing"))  # another purpose would draw other labels
        given = task.data.train.observed
        has_unknown = (given == 0).any(1)
        target = complete_fit_target(given[has_unknown] if has_unknown.any() else given, labels, rng)
        count = int(target.to_find)
    else:
        count = int((labels == 1).sum())
        if count == 0:
            return None, on
        target = estimated_fit_target(on, labels, task.config.train.expected_positives)
    if count < FEW:
        log.warning("only %d labels to fit confidences to: they are little more than a guess", count)
    return target, on


def _fused_proposals(fusion: Fusion, limits: _Limits, confidence: Doubles, scores: Scores, split: Split) -> Proposals:
    alone = fusion.confidence_alone(scores)
    unknown = split.observed == 0
    doubted = split.observed == 1
    for name, values in alone.items():
        doubted &= values <= limits.doubt[name]
    if len(alone) < 2:
        doubted[:] = False  # one predictor alone does not outweigh an observed label
    proposed = unknown & (confidence >= limits.propose)
    return Proposals(confidence, alone, proposed, unknown & (confidence <= limits.deny) & ~proposed, doubted)


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
