"""Completion of an image set's labels from the scores of a teacher and a model."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator

from aevlp.config.config import Config
from aevlp.core.chunks import slices_of
from aevlp.core.errors import UserError
from aevlp.core.seeds import seed_for
from aevlp.damp.likeness import Likeness
from aevlp.damp.options import DampOptions
from aevlp.data.annotations import WHOLE_IMAGE
from aevlp.data.dataset import Dataset, Labels, Split, evenly_spread
from aevlp.data.prevalence import Floats
from aevlp.inference.completion.claims import (
    AbsentClaim,
    Claim,
    ClaimMeasurement,
    absence_cut,
    best_f1_cut,
    cumulative,
    expected_claim,
)
from aevlp.inference.completion.fusion import (
    CHUNK,
    SUREST,
    TOGETHER,
    Doubles,
    FitTarget,
    Flags,
    Fusion,
    Scores,
    answered_fit_target,
    complete_fit_target,
    estimated_fit_target,
    fit_fusion,
    greatest_doubted,
    rank_of_classes,
)
from aevlp.inference.completion.result import Completion, Proposals
from aevlp.inference.options import LabelOptions
from aevlp.models.model_folder import load_classifier
from aevlp.sources.consensus import tag_shares
from aevlp.sources.damp import Damp
from aevlp.store.location import store_root
from aevlp.training.evaluate import probabilities
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import read_thresholds
from aevlp.training.user_features import inputs_for

log = logging.getLogger("aevlp")
FEW = 50  # labels, below which a measured or estimated figure is little more than a guess
FITTED_ON = 5000  # images at most
NOTHING_KNOWN = "no image has a label to fit confidences to: labels are proposed by {rule}, and nobody has verified them"
NOTHING_TO_FIND = {
    "complete": "no new label is proposed: the fully labelled images have no more labels each than training images show",
    "estimated": "no new label is proposed: the predictors are not sure enough of any label that was not observed; "
    "fully labelled images (the split 'val'), or --train.expected_positives, help",
}
NOTHING_ABOVE = "no new label is proposed: none has enough confidence"
CANDIDATE_SHARE = 0.99  # of all labels that are expected to be there
FEWEST_CANDIDATES, MOST_CANDIDATES = 5, 20  # per image
HARDER = 3.0  # labels that are not observed are lost up to so many times as often as observed ones (docs/results.md)
DOUBTS = 0.99  # share of the cells with as little confidence as a doubted label that must be absent


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
    warnings = [] if task.run is None else list((task.run.read_result() or {}).get("warnings") or ())
    scores = {name: dict(found) for name, found in _scores(task, accelerator, warnings).items()}
    warned = tuple(dict.fromkeys(warnings))
    target, on = _target(task, scores)
    if target is None:
        proposals = {name: _rule_proposals(task, scores[name], split) for name, split in task.splits.items()}
        rule = NOTHING_KNOWN.format(rule="DAMP's rule" if task.uses_teacher else "the thresholds of the run")
        return Completion(task.data, proposals, rule, None, task.out, warned)
    fusion, held_out = fit_fusion(on, target)
    confidence = {name: fusion.confidence(scores[name]) for name in task.splits}
    unknown = np.concatenate([confidence[name][split.observed == 0] for name, split in task.splits.items()])
    to_find = target
    if target.basis == "answered":  # what is answered is found; what is to be found is what the confidences expect
        cells = np.concatenate([split.observed for split in task.splits.values()]) == 0
        expected = np.concatenate(list(confidence.values())) * cells
        to_find = FitTarget(expected, cells.astype(np.float64), "estimated")
    propose, claim = _cut(task, unknown, held_out[TOGETHER], to_find)
    doubt = {name: greatest_doubted(held_out[name], target, DOUBTS) for name in fusion.alone}
    judged = np.concatenate(list(confidence.values())) if target.basis == "answered" else held_out[TOGETHER]
    # Labels that nobody has tagged are in fuller images than tags, and harder to see.
    limit = task.options.max_lost / (1 if task.is_measurable else HARDER)
    deny, lost = absence_cut(judged, to_find, limit)
    absences = ClaimMeasurement(judged, target, unknown).absences(deny) if task.is_measurable else AbsentClaim(lost)
    proposals = {
        name: _fused_proposals(fusion, confidence[name], scores[name], split, propose, deny, doubt)
        for name, split in task.splits.items()
    }
    return Completion(task.data, proposals, claim, absences, task.out, warned)


def _cut(task: LabelTask, unknown: Floats, held_out: Doubles, target: FitTarget) -> tuple[float, Claim | str]:
    """Return the least confidence of a proposed label, and the claim about the labels above it, or why there are none.

    `unknown` [M] are the confidences of all unknown cells of the images to complete.
    """
    options = task.options
    found = sum(int((_answered(split) & (split.observed == 1)).sum()) for split in task.splits.values())
    best = best_f1_cut(unknown, found) if options.min_confidence is None else options.min_confidence
    if target.to_find == 0:
        return np.inf, NOTHING_TO_FIND[target.basis]
    if not task.is_measurable:
        observed = np.concatenate([(split.observed == 1).sum(1) for split in task.splits.values()])
        proposed = unknown[unknown >= best]
        return best, expected_claim(proposed, target, float(observed.mean())) if len(proposed) else NOTHING_ABOVE
    measured = ClaimMeasurement(held_out, target, unknown)
    cut = best
    if options.min_precision is not None:
        cut = measured.precise_cut(options.min_precision)
        if cut == np.inf:
            return cut, (
                f"no new label is proposed: with {len(held_out)} fully labelled images, no least confidence keeps a precision "
                f"of {100 * options.min_precision:g} % by the lower end of its 90 % interval; more of them, a trained model "
                "(--run RUN --folds 5) or a lower precision help"
            )
    return cut, measured.claim(cut) if (unknown >= cut).any() else NOTHING_ABOVE


def _scores(task: LabelTask, accelerator: Accelerator, warnings: list[str]) -> dict[str, dict[str, npt.NDArray[np.float32]]]:
    """Return split name -> predictor -> scores [N, C], for the training and validation images; add `warnings` of the teacher."""
    data, config = task.data, task.config
    scores: dict[str, dict[str, npt.NDArray[np.float32]]] = {"train": {}, "val": {}}
    if task.uses_teacher:
        context = config.source_context(data.train, data.classes, store_root(config.run.store), accelerator, data.val)
        source = config.method.source.make(context, config.source)
        assert isinstance(source, Damp)
        source.check_teacher()
        warnings += [] if source.teacher_check is None else source.teacher_check.warnings()
        if source.options.tune:
            source.fill()
        for split in (data.train, data.val):
            scores[split.name]["teacher"] = source.scores(split).numpy()
        if (data.train.observed == 1).any():
            scores["train"]["likeness"], scores["val"]["likeness"] = _likeness(source, data)
    if task.run is not None and task.options.folds is not None:
        from aevlp.inference.completion.folds import out_of_fold  # imported here to keep the chain of imports short

        found = out_of_fold(config, data, task.run, task.options.folds, accelerator)
        scores["train"]["model"], scores["val"]["model"] = found
    elif task.run is not None:
        classifier = load_classifier(task.run.model).to(accelerator.device)
        inputs_of = inputs_for(classifier, config.model.features, config.train.workers)
        for split in (data.train, data.val):
            scores[split.name]["model"] = probabilities(classifier, inputs_of(split), accelerator, task.run.model)
    return scores


def _likeness(source: Damp, data: Dataset) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return what images like the training and the validation images are tagged with, [N, C] and [M, C]."""
    likeness = Likeness(source.views, tag_shares(torch.from_numpy(data.train.observed)))
    others = likeness.of_others(source.views.at(data.val, source.views.draws))
    return likeness.of_fitted().numpy(), others.numpy()


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
    is_known = any((split.evaluation_labels == 1).any() for split in _target_splits(task))
    if (
        task.options.min_confidence is not None
        and not task.is_measurable
        and (task.options.min_confidence > SUREST or not is_known)
    ):
        raise UserError(
            f"--min-confidence {task.options.min_confidence:g}: without fully labelled images no confidence is above "
            f"{SUREST:g}, and without any label there is none; choose a lower one, or label some images (50 or more) completely "
            "as the split 'val'"
        )
    if is_known:
        return
    if task.uses_teacher and task.run is not None:
        raise UserError(f"{root} has no label to weight two predictors by; choose one with --witness teacher or --witness model")


def _target(task: LabelTask, scores: Mapping[str, Scores]) -> tuple[FitTarget | None, Scores]:
    """Return the target to fit the fusion to (None: there is no label), and the scores of the same images."""
    splits = _target_splits(task)
    labels: Labels = np.concatenate([split.evaluation_labels for split in splits])
    rows = evenly_spread(len(labels), FITTED_ON)
    labels = labels[rows]
    on = {name: np.concatenate([scores[split.name][name] for split in splits])[rows] for name in scores["val"]}
    if splits[0].truth is not None:
        rng = np.random.default_rng(seed_for(0, "weighing"))
        given = task.data.train.observed
        has_unknown = (given == 0).any(1)
        target = complete_fit_target(given[has_unknown] if has_unknown.any() else given, labels, rng)
        count = int(target.to_find)
    else:
        answered = np.concatenate([_answered(split) for split in splits])[rows]
        accepted, asked = int((answered & (labels == 1)).sum()), int(answered.sum())
        if min(accepted, asked - accepted) >= FEW and task.config.train.expected_positives is None:
            return answered_fit_target(labels, answered), on
        # An accepted label was chosen by its score: it is no fair draw from its image's labels, and no longer to be found.
        labels = np.where(answered, np.int8(-1), labels)
        count = int((labels == 1).sum())
        if count == 0:
            return None, on
        target = estimated_fit_target(on, labels, task.config.train.expected_positives)
    if count < FEW:
        log.warning("only %d labels to fit confidences to: they are little more than a guess", count)
    return target, on


def _answered(split: Split) -> Flags:
    """Return the cells that a person has answered, bool [N, C]: one by one, or with the whole image."""
    answered = np.zeros(split.observed.shape, bool)
    for row, column in split.annotations.answers:
        if column != WHOLE_IMAGE:
            answered[row, column] = True
        elif row in split.annotations.complete:
            answered[row] |= split.observed[row] == -1  # the label that came with the image was not answered
    return answered


def _fused_proposals(
    fusion: Fusion,
    confidence: Floats,
    scores: dict[str, npt.NDArray[np.float32]],
    split: Split,
    propose: float,
    deny: float,
    doubt: Mapping[str, float],
) -> Proposals:
    """Propose labels from the confidence `propose` on, and absences up to the confidence `deny`.

    `doubt` maps each predictor to its greatest confidence alone at which it doubts an observed label. `scores` are used up.
    """
    alone: dict[str, Floats] = {}
    for name in list(scores):  # each is a table of the whole set, and of no further use
        alone |= fusion.confidence_alone({name: scores.pop(name)})
    unknown = split.observed == 0
    doubted = split.observed == 1
    for name, values in alone.items():
        doubted &= values <= doubt[name]
    if len(alone) < 2:
        doubted[:] = False  # one predictor alone does not outweigh an observed label
    proposed = unknown & (confidence >= propose)
    denied = unknown & (confidence <= deny) & ~proposed
    return Proposals(confidence, alone, proposed, denied, doubted, _candidates(confidence, unknown, proposed | denied))


def _rule_proposals(task: LabelTask, scores: Scores, split: Split) -> Proposals:
    """Propose labels if none is known: by DAMP's rule on the mean scores of all draws, or by the run's thresholds."""
    if "teacher" in scores:
        options = task.config.source
        assert isinstance(options, DampOptions)
        values = scores["teacher"].astype(np.float64)
        proposed = (rank_of_classes(-values) < options.top_k) & (values >= options.global_threshold)
    else:
        assert task.run is not None
        thresholds = read_thresholds(task.run.thresholds, task.data.classes)
        proposed = thresholds.above(scores["model"])
        values = scores["model"].astype(np.float64)
        if thresholds.calibration is not None:
            values = thresholds.calibration(values)
    unknown = split.observed == 0
    nothing, proposed = np.zeros(values.shape, bool), proposed & unknown
    return Proposals(values, dict.fromkeys(scores, values), proposed, nothing, nothing, _candidates(values, unknown, proposed))


def _candidates(confidence: Floats, unknown: Flags, settled: Flags) -> Flags:
    """Return the labels to look at beyond those that are settled: with these, nearly all that are expected to be there.

    The likeliest few of each image are always among them: estimated confidences may all be too low, but their order holds.
    """
    ranked = np.sort(confidence[unknown])[::-1]
    enough = CANDIDATE_SHARE * ranked.sum(dtype=np.float64)
    count = sum(int(np.searchsorted(sums, enough)) for _, sums in cumulative(ranked)) + 1
    least = ranked[min(count, len(ranked)) - 1] if len(ranked) else np.inf
    candidates = unknown & ~settled
    for rows in slices_of(len(confidence), CHUNK):
        part, values = candidates[rows], confidence[rows]
        place = rank_of_classes(-np.where(part, values, -1.0))
        part &= ((values >= least) & (place < MOST_CANDIDATES)) | (place < FEWEST_CANDIDATES)
    return candidates
