"""Two models on the same fully labelled images: before and after a round of review, with intervals for every difference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from aevlp.core.errors import UserError
from aevlp.core.seeds import seed_for
from aevlp.data.answers import AnswerStore, Effort, answers_file
from aevlp.data.dataset import Paths, Split
from aevlp.data.fingerprint import DIGEST
from aevlp.data.load import NO_ANSWERS, DataOptions
from aevlp.inference.evaluation import SplitProbabilities
from aevlp.training.intervals import LEVEL
from aevlp.training.run_folder import RunFolder
from aevlp.training.thresholds import read_thresholds

Flags = npt.NDArray[np.bool_]
Values = npt.NDArray[np.float64]
REPLICATES = 500
FEWEST = 10  # images


@dataclass(frozen=True)
class Difference:
    """A figure before and after, in percent, and the interval of the difference. None: no image has the class."""

    name: str
    before: float | None
    after: float | None
    low: float
    high: float

    @property
    def is_certain(self) -> bool:
        """True if the interval does not hold zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, eq=False)
class RoundComparison:
    """Figures of two models on the same images, and the labels that they disagree about."""

    before: Path
    after: Path
    split: str
    paths: Paths
    classes: tuple[str, ...]
    truth: Flags  # [N, C]
    given: tuple[Flags, Flags]  # labels above the thresholds [N, C]
    probabilities: tuple[Values, Values]  # [N, C]
    thresholds: tuple[Values, Values]  # [C]
    overall: tuple[Difference, ...]
    per_class: tuple[Difference, ...]  # average precision
    trained_on: tuple[int, int]  # number of the split's images that each model was trained on; all of them are left out
    of: int  # images of the split
    effort: Effort | None

    @property
    def corrected(self) -> Flags:
        """The labels [N, C] that were wrong before and are right after."""
        before, after = self.given
        flags: Flags = (before != after) & (after == self.truth)
        return flags

    @property
    def spoilt(self) -> Flags:
        """The labels [N, C] that were right before and are wrong after."""
        before, after = self.given
        flags: Flags = (before != after) & (before == self.truth)
        return flags


def compare_rounds(
    runs: tuple[RunFolder, RunFolder], found: tuple[SplitProbabilities, SplitProbabilities], effort: Effort | None
) -> RoundComparison:
    """Compare two runs by their probabilities of the images of a fully labelled split that neither was trained on.

    A model knows the tags of its training images by heart: on images that one of two models has seen, that one looks better.
    """
    split, classes = found[0].split, tuple(found[0].classes)
    _require_complete(split)
    assert split.truth is not None
    seen = _seen(runs[0], split), _seen(runs[1], split)
    rows = np.flatnonzero(~(seen[0] | seen[1]))
    _require_unseen(runs, split, seen, len(rows))
    truth = split.truth[rows] == 1
    limits = [read_thresholds(run.thresholds, classes) for run in runs]
    given = limits[0].above(found[0].found[rows]), limits[1].above(found[1].found[rows])
    scores = found[0].found[rows].astype(np.float64), found[1].found[rows].astype(np.float64)
    weights = np.random.default_rng(seed_for(0, "rounds")).exponential(size=(REPLICATES, len(truth)))
    weights = np.concatenate([np.ones((1, len(truth))), weights])  # the first row gives the figures themselves
    precision = [average_precisions(each, truth, weights) for each in scores]
    f1 = [macro_f1(each, truth, weights) for each in given]
    columns = [_difference(name, *(each[:, column] for each in precision)) for column, name in enumerate(classes)]
    return RoundComparison(
        before=runs[0].path,
        after=runs[1].path,
        split=split.name,
        paths=split.paths.at(rows),
        classes=classes,
        truth=truth,
        given=given,
        probabilities=scores,
        thresholds=(_values(limits[0].classes, classes), _values(limits[1].classes, classes)),
        overall=(
            _difference("mAP", *(np.nanmean(each, axis=1) for each in precision)),
            _difference("macro F1", *f1),
        ),
        per_class=tuple(columns),
        trained_on=(int(seen[0].sum()), int(seen[1].sum())),
        of=len(split.names),
        effort=effort,
    )


def effort_of(data: Path, options: DataOptions) -> Effort | None:
    """Return what the answers about an image set have cost; None: there are none."""
    file = answers_file(data) if options.answers is None else Path(options.answers)
    return AnswerStore(file).effort() if options.answers != NO_ANSWERS and file.is_file() else None


def average_precisions(scores: Values, truth: Flags, weights: Values) -> Values:
    """Return the average precision of each class in percent, float64 [R, C], for R rows of image weights [R, N].

    NaN: the class has no positive among the images of weight above 0.
    """
    found = np.full((len(weights), truth.shape[1]), np.nan)
    for column in np.flatnonzero(truth.any(0)).tolist():
        order = np.argsort(-scores[:, column], kind="stable")
        weight = weights[:, order]
        hits = weight * truth[order, column]
        precision = hits.cumsum(1) / np.maximum(weight.cumsum(1), 1e-12)
        found[:, column] = 100 * (precision * hits).sum(1) / np.maximum(hits.sum(1), 1e-12)
    return found


def macro_f1(given: Flags, truth: Flags, weights: Values) -> Values:
    """Return the macro F1 in percent, float64 [R], for R rows of image weights [R, N]; classes without any label are left out."""
    hits, total = weights @ (given & truth), weights @ given.astype(np.float64) + weights @ truth.astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean: Values = np.nanmean(200 * hits / np.where(total > 0, total, np.nan), axis=1)
    return mean


def _difference(name: str, before: Values, after: Values) -> Difference:
    """Return the figures of the first replicate, and the interval of the difference over the others."""
    if np.isnan(before[0]) or np.isnan(after[0]):
        return Difference(name, None, None, np.nan, np.nan)
    low, high = np.quantile((after - before)[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Difference(name, float(before[0]), float(after[0]), float(low), float(high))


def _values(by_class: Mapping[str, float], classes: Sequence[str]) -> Values:
    return np.array([by_class[name] for name in classes])


def _seen(run: RunFolder, split: Split) -> Flags:
    """Return which of the images [N] the run's model was trained on."""
    if not run.trained_on.is_file():
        return np.zeros(len(split.names), bool)
    return np.isin(split.digests, np.fromfile(run.trained_on, f"S{DIGEST}"))


def _require_complete(split: Split) -> None:
    if split.truth is None or len(split.names) < FEWEST:
        raise UserError(
            f"{split.root}: the split '{split.name}' has {len(split.names)} images"
            f"{'' if split.truth is not None else ' that are not fully labelled'}; two models are compared on {FEWEST} or more "
            "fully labelled ones: answer the audit of aevlp review, or choose another split with --split"
        )


def _require_unseen(runs: Sequence[RunFolder], split: Split, seen: Sequence[Flags], left: int) -> None:
    if left < FEWEST:
        counts = [(run.path.name, int(flags.sum())) for run, flags in zip(runs, seen, strict=True) if flags.any()]
        known = " and ".join(f"{name}{' ' if place else ' was trained '}on {count}" for place, (name, count) in enumerate(counts))
        raise UserError(
            f"{split.root}: {known} of the {len(split.names)} images of the split '{split.name}'; two models are compared on "
            f"{FEWEST} or more that neither was trained on: compare runs that were trained after the audit was answered, or "
            "choose another split with --split"
        )
