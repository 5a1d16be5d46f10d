"""Thresholds: the probability above which each class's label is given.

With the losses of this field an unknown label does not settle at 0, so 0.5 need not be good. A class's threshold is chosen on
validation images for an aim, and shrunk towards the one that serves all classes together, the more so the rarer the class.
Where the validation labels are incomplete, each observed label counts for several true positives (`aevlp.data.prevalence`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from aevlp.config.run_options import Aim, ThresholdOptions
from aevlp.core.errors import UserError
from aevlp.core.files import json_object, write_json
from aevlp.core.json_types import from_json
from aevlp.core.options import AtLeast, Between
from aevlp.core.seeds import seed_for
from aevlp.data.dataset import Labels, Split
from aevlp.data.prevalence import Floats, informative_rows
from aevlp.data.regression import logit, positive_weight_by_scores, sigmoid
from aevlp.training.calibration import Calibration, fit_calibration
from aevlp.training.intervals import ImageBootstrap, Interval
from aevlp.training.run_folder import RunFolder

FORMAT = 1
Share = Annotated[float, Between(0, 1)]
PARTS = 5  # cross-validation of the measured precision


@dataclass(frozen=True)
class Thresholds:
    """The content of `thresholds.json`."""

    aim: Aim
    precision: Share | None  # wanted; None for other aims
    basis: Literal["complete", "estimated"]  # estimated: without complete labels
    split: str
    images: Annotated[int, AtLeast(0)]
    positives: Annotated[float, AtLeast(0)]  # labels per image that were counted on
    overall: Share
    classes: dict[str, Share]
    calibration: Calibration | None  # None: it takes complete labels
    measured_precision: Interval | None = None  # of all labels together, on images that were not fitted on; None likewise

    def above(self, probabilities: Floats) -> npt.NDArray[np.bool_]:
        """Return the labels that are given for probabilities [N, C]."""
        return probabilities >= np.array(list(self.classes.values()))


def fit_thresholds(
    probabilities: Floats,
    labels: Labels,
    classes: Sequence[str],
    options: ThresholdOptions,
    *,
    is_complete: bool,
    expected_positives: float | None = None,
    split: str = "val",
) -> Thresholds:
    """Fit the thresholds to probabilities [N, C] of images with these labels [N, C].

    Where they are not complete, `expected_positives` per image may be given, and images of which nothing is known are left out.
    """
    options.require_measurable(is_complete=is_complete)
    if is_complete:
        weight = (labels == 1).astype(np.float64)
    else:
        if (tells := informative_rows(labels)).any():
            probabilities, labels = probabilities[tells], labels[tells]
        weight = positive_weight_by_scores(logit(probabilities)[..., None], labels, expected_positives)
    overall, own = _fit(probabilities, weight, options)
    return Thresholds(
        aim=options.aim,
        precision=options.precision if options.aim == "precision" else None,
        basis="complete" if is_complete else "estimated",
        split=split,
        images=len(labels),
        positives=float(weight.sum(1).mean()),
        overall=overall,
        classes=dict(zip(classes, map(float, own), strict=True)),
        calibration=fit_calibration(probabilities, labels == 1) if is_complete else None,
        measured_precision=_measured_precision(probabilities, weight, options) if is_complete else None,
    )


def _measured_precision(probabilities: Floats, weight: Floats, options: ThresholdOptions) -> Interval:
    """Return the precision over all classes, where each image's labels are given by thresholds that were fitted without it."""
    part = np.arange(len(weight)) % PARTS
    given = np.zeros(weight.shape, bool)
    for k in np.unique(part):
        own, others = part == k, (part != k) | (len(part) == 1)  # a single image is fitted on itself
        given[own] = probabilities[own] >= _fit(probabilities[others], weight[others], options)[1]
    bootstrap = ImageBootstrap(len(weight), seed_for(0, "thresholds"))
    return bootstrap.share((weight * given).sum(1), given.sum(1).astype(np.float64), int(given.sum()))


def _fit(probabilities: Floats, weight: Floats, options: ThresholdOptions) -> tuple[float, npt.NDArray[np.float64]]:
    """Return the common threshold of all classes, and one per class [C]."""
    overall = threshold(probabilities.ravel(), weight.ravel(), options.aim, options.precision)
    examples = (weight > 0).sum(0)
    own = [
        threshold(probabilities[:, c], weight[:, c], options.aim, options.precision) if examples[c] else overall
        for c in range(weight.shape[1])
    ]
    share = examples / np.maximum(examples + options.shrinkage, 1e-9)
    return overall, sigmoid(share * logit(np.array(own)) + (1 - share) * logit(np.array([overall])))


def threshold(values: Floats, weight: Floats, aim: Aim, precision: float = 0.9) -> float:
    """Return the threshold on values [M] that serves the aim best, half-way between two values; cells have positive weights [M].

    A precision that cannot be reached gives the highest that can.
    """
    order = np.argsort(-values, kind="stable")
    ranked = values[order].astype(np.float64)
    given = np.arange(1, len(values) + 1)
    hits = np.minimum(np.cumsum(weight[order]), given)
    there = weight.sum()
    if aim == "f1":
        merit = 2 * hits / (given + there)
    elif aim == "count":
        merit = -np.abs(given - there)
    else:
        is_enough = hits >= precision * given - 1e-9
        merit = np.where(is_enough, given, hits / given - 1)
    is_last_of_equals = np.append(ranked[1:] < ranked[:-1], True)
    best = int(np.where(is_last_of_equals, merit, -np.inf).argmax())
    below = ranked[best + 1] if best + 1 < len(ranked) else 0.0
    return float((ranked[best] + below) / 2)


def as_json(thresholds: Thresholds) -> dict[str, Any]:
    """Return the content of `thresholds.json`."""
    return {"format": FORMAT, **asdict(thresholds)}


def read_thresholds(file: Path, classes: Sequence[str]) -> Thresholds:
    """Read the thresholds of a run; its classes must be these, in this order."""
    if not file.is_file():
        raise UserError(f"{file}: the run has no thresholds yet; make them with aevlp thresholds {file.parent} DATA")
    try:
        content = json_object(file)
        number = from_json(content.pop("format", None), int, "format")
        if number > FORMAT:
            raise UserError(f"{file}: written by a newer aevlp (format {number}, this one knows {FORMAT}); update aevlp")
        found: Thresholds = from_json(content, Thresholds)
    except ValueError as error:
        raise UserError(
            f"{file}: not a file of thresholds ({error}); make it anew with aevlp thresholds {file.parent} DATA"
        ) from None
    if list(found.classes) != list(classes):
        raise UserError(f"{file}: its classes are not the model's; make it anew with aevlp thresholds {file.parent} DATA")
    return found


def thresholds_for(
    split: Split,
    classes: Sequence[str],
    found: npt.NDArray[np.float32],
    options: ThresholdOptions,
    expected_positives: float | None,
) -> Thresholds:
    """Fit thresholds to the probabilities [N, C] that a model gives the images of a split."""
    return fit_thresholds(
        found,
        split.evaluation_labels,
        classes,
        options,
        is_complete=split.truth is not None,
        expected_positives=expected_positives,
        split=split.name,
    )


def write_thresholds(run: RunFolder, thresholds: Thresholds) -> None:
    """Write the thresholds into the run and, for those who take the model alone, into the model's folder, if there is one."""
    for file in (run.model / run.thresholds.name, run.thresholds):
        if file.parent.is_dir():
            write_json(file, as_json(thresholds))
