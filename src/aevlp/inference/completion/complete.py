"""Completing the labels of an image set by what a teacher and a model say of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from aevlp.config.config import Config
from aevlp.core.errors import UserError
from aevlp.core.seeds import seed_for
from aevlp.data.dataset import Dataset, Labels, Split
from aevlp.data.prevalence import observed_like
from aevlp.inference.completion.records import Completed, Opinion
from aevlp.inference.completion.weighing import Flags, Question, Said, Weighing, estimated_question, question, weigh
from aevlp.training.run_folder import RunFolder

if TYPE_CHECKING:
    from accelerate import Accelerator

log = logging.getLogger("aevlp")
FEW = 50  # labels, below which a figure that is measured or estimated by them is little more than a guess
JUDGED = 5000  # images that witnesses are weighed on, at most
ABSENT = 0.01  # calibrated probability below which a label is said to be absent where nothing was fitted on these images


@dataclass(frozen=True)
class Request:
    """Who is asked, and what is wanted."""

    config: Config
    data: Dataset
    run: RunFolder | None  # None: no model is asked
    folds: int | None  # trainings for an out-of-fold opinion; None: the run's own model
    asks_teacher: bool
    min_precision: float | None
    min_negative_precision: float
    root: Path | None  # of the view store


@dataclass(frozen=True, eq=False)
class Verdict:
    """What is concluded about the images of a split, all [N, C]."""

    confidence: npt.NDArray[np.float64]
    opinions: Mapping[str, npt.NDArray[np.float64]]
    proposed: Flags
    denied: Flags
    doubted: Flags


@dataclass(frozen=True, eq=False)
class Completion:
    """An image set with its labels completed."""

    data: Dataset
    verdicts: Mapping[str, Verdict]  # split name -> verdict, of the splits whose labels are incomplete
    weighing: Weighing | None  # None: there was no label to weigh by

    def records(self) -> Iterator[Completed]:
        """Every image, split by split."""
        for split in (self.data.train, self.data.val, self.data.test):
            if split is not None:
                for row in range(len(split.names)):
                    yield self._record(split, row)

    def _record(self, split: Split, row: int) -> Completed:
        verdict = self.verdicts.get(split.name)
        observed = split.observed[row]

        def named(columns: npt.NDArray[np.intp]) -> tuple[str, ...]:
            return tuple(self.data.classes[c] for c in columns)

        def opinions(flags: Flags, *, surest: int) -> dict[str, Opinion]:
            columns = np.flatnonzero(flags[row])
            assert verdict is not None
            columns = columns[np.argsort(surest * verdict.confidence[row, columns], kind="stable")]
            return {self.data.classes[c]: _opinion(verdict, row, int(c)) for c in columns}

        return Completed(
            name=split.names[row],
            # What was held out of incompletely labelled images is no validation split to anyone else.
            split="train" if split.truth is None else split.name,
            observed=named(np.flatnonzero(observed == 1)),
            absent=named(np.flatnonzero(observed == -1)),
            proposed=opinions(verdict.proposed, surest=-1) if verdict else {},
            proposed_absent=opinions(verdict.denied, surest=1) if verdict else {},
            doubted=opinions(verdict.doubted, surest=1) if verdict else {},
        )


def _opinion(verdict: Verdict, row: int, column: int) -> Opinion:
    said = {name: float(table[row, column]) for name, table in verdict.opinions.items()}
    return Opinion(float(verdict.confidence[row, column]), said)


def complete(request: Request, accelerator: Accelerator) -> Completion:
    """The image set with its labels completed; nothing that was observed is taken away."""
    data = request.data
    _refuse_unanswerable(request)
    said = _said(request, accelerator)
    splits = {split.name: split for split in (data.train, data.val) if split.name == "train" or split.truth is None}
    asked, on = _question(request, said)
    if asked is None:
        verdicts = {name: _without_labels(request, said[name], split) for name, split in splits.items()}
        return Completion(data, verdicts, None)
    weighing = weigh(on, asked, min_precision=request.min_precision, min_negative_precision=request.min_negative_precision)
    return Completion(data, {name: _verdict(weighing, said[name], split) for name, split in splits.items()}, weighing)


def _said(request: Request, accelerator: Accelerator) -> dict[str, dict[str, npt.NDArray[np.float32]]]:
    """Split name -> witness -> scores [N, C], of the training and validation images."""
    data, config = request.data, request.config
    said: dict[str, dict[str, npt.NDArray[np.float32]]] = {"train": {}, "val": {}}
    if request.asks_teacher:
        from aevlp.sources.damp import Damp

        task = config.source_context(data.train, data.classes, request.root, accelerator, data.val)
        source = config.method.source.make(task, config.source)
        assert isinstance(source, Damp)
        if source.options.tune:
            source.fill()
        for split in (data.train, data.val):
            said[split.name]["teacher"] = source.scores(split).numpy()
    if request.run is not None and request.folds is not None:
        from aevlp.inference.completion.folds import out_of_fold

        found = out_of_fold(config, data, request.run, request.folds, accelerator)
        said["train"]["model"], said["val"]["model"] = found
    elif request.run is not None:
        from aevlp.models.model_folder import load_classifier
        from aevlp.training.evaluate import probabilities
        from aevlp.training.user_features import inputs_for

        classifier = load_classifier(request.run.model).to(accelerator.device)
        sight = inputs_for(classifier, config.model.features, config.train.workers)
        for split in (data.train, data.val):
            said[split.name]["model"] = probabilities(classifier, sight(split), accelerator)
    return said


def _weighed_on(request: Request) -> list[Split]:
    """The images that witnesses are weighed on: completely labelled ones or, without them, all whose labels nobody was told."""
    data = request.data
    is_told = request.run is not None and request.folds is None
    return [data.val] if is_told or data.val.truth is not None else [data.train, data.val]


def _refuse_unanswerable(request: Request) -> None:
    """Refuses what cannot be done without any label, before the work begins."""
    if any((split.evaluation_labels == 1).any() for split in _weighed_on(request)):
        return
    place = request.data.train.root
    if request.min_precision is not None:
        raise UserError(f"--min-precision: {place} has no label to measure a precision by; leave it out")
    if request.asks_teacher and request.run is not None:
        raise UserError(f"{place} has no label to weigh two witnesses by; choose one with --witness teacher or --witness model")


def _question(request: Request, said: Mapping[str, Said]) -> tuple[Question | None, Said]:
    """(what the witnesses can be weighed by, what they said of it); None: there is nothing."""
    splits = _weighed_on(request)
    labels: Labels = np.concatenate([split.evaluation_labels for split in splits])
    rows = np.unique(np.linspace(0, len(labels) - 1, JUDGED).round().astype(np.intp))
    observed = labels[rows]
    on = {name: np.concatenate([said[split.name][name] for split in splits])[rows] for name in said["val"]}
    if splits[0].truth is not None:
        rng = np.random.default_rng(seed_for(0, "weighing"))
        asked = question(observed_like(_incomplete(request.data.train.observed), observed, rng), observed)
        count = int(asked.mass.sum())
    else:
        count = int((observed == 1).sum())
        if count == 0:
            return None, on
        asked = estimated_question(on, observed, request.config.train.expected_positives)
    if count < FEW:
        log.warning("only %d labels to weigh by: confidences and their precision are little more than a guess", count)
    return asked, on


def _incomplete(observed: Labels) -> Labels:
    """The rows [M, C] that something is unknown of; all of them if there is none."""
    is_open = (observed == 0).any(1)
    return observed[is_open] if is_open.any() else observed


def _verdict(weighing: Weighing, said: Said, split: Split) -> Verdict:
    confidence, opinions = weighing.confidence(said), weighing.opinions(said)
    unknown = split.observed == 0
    doubted = split.observed == 1
    for name, table in opinions.items():
        doubted &= table <= weighing.doubt[name]
    if len(opinions) < 2:
        doubted[:] = False  # one witness against an observed label is not enough
    proposed = unknown & (confidence >= weighing.propose)
    return Verdict(confidence, opinions, proposed, unknown & (confidence <= weighing.deny) & ~proposed, doubted)


def _without_labels(request: Request, said: Said, split: Split) -> Verdict:
    """The verdict where no label is known: by DAMP's rule on the mean scores of all draws, or by the thresholds of the run."""
    if "teacher" in said:
        from aevlp.damp.options import DampOptions

        scores, options = said["teacher"].astype(np.float64), request.config.source
        assert isinstance(options, DampOptions)
        place = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1)
        proposed = (place < options.top_k) & (scores >= options.global_threshold)
        denied = place >= scores.shape[1] - int(options.negative_fraction * scores.shape[1] + 1e-9)
    else:
        from aevlp.training.thresholds import read_thresholds

        assert request.run is not None
        thresholds = read_thresholds(request.run.thresholds, request.data.classes)
        proposed = thresholds.above(said["model"])
        scores = said["model"].astype(np.float64)
        if thresholds.calibration is not None:
            scores = thresholds.calibration(scores)
        denied = scores <= ABSENT
    unknown = split.observed == 0
    nothing = np.zeros(scores.shape, bool)
    return Verdict(scores, dict.fromkeys(said, scores), proposed & unknown, denied & ~proposed & unknown, nothing)
