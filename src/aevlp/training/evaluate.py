"""Probabilities of a classifier or a teacher, and their metrics: mean average precision, and F1 of labels above thresholds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from accelerate import Accelerator
from sklearn.metrics import average_precision_score
from torch import Tensor

from aevlp.data.dataset import Split
from aevlp.data.prevalence import informative_rows, positive_weight
from aevlp.models.classifier import Classifier
from aevlp.models.safe_loading import require_finite_output
from aevlp.sources import Source
from aevlp.sources.damp import Damp
from aevlp.training.inputs import InputFactory, Inputs, PlainOrder

EVALUATION_BATCH = 64  # images per process
Predict = Callable[[Split], npt.NDArray[np.float32]]
"""Split -> the probabilities of its images in order, float32 [N, C], the same in every process."""


@dataclass(frozen=True)
class RankingMetrics:
    """Ranking metrics in percent. `mAP` counts a class without a positive as 0, `mAP_present` leaves it out."""

    mAP: float
    mAP_present: float
    per_class_AP: dict[str, float | None]  # class name -> average precision; None: no positive in the split


def ranking_metrics(
    probabilities: npt.NDArray[np.floating], labels: npt.NDArray[np.int8], classes: Sequence[str]
) -> RankingMetrics:
    """Return the average precision (as scikit-learn defines it) of probabilities [N, C] against labels [N, C], 1: positive."""
    truth = labels == 1
    per_class = {
        name: 100 * float(average_precision_score(truth[:, c], probabilities[:, c])) if truth[:, c].any() else None
        for c, name in enumerate(classes)
    }
    present = [value for value in per_class.values() if value is not None]
    total = sum(present)
    return RankingMetrics(total / len(classes), total / len(present) if present else 0.0, per_class)


@dataclass(frozen=True)
class LabelMetrics:
    """Metrics of given labels in percent. A class that is neither present nor given has no F1 and is left out of the mean."""

    macro_F1: float
    micro_F1: float
    precision: float  # over all classes together; 100 if no label is given
    recall: float
    per_class_F1: tuple[float | None, ...]


def label_metrics(given: npt.NDArray[np.bool_], positive: npt.NDArray[Any]) -> LabelMetrics:
    """Return the metrics of given labels [N, C] against the positive ones [N, C]: bool, or the positives a cell stands for."""
    claims, wanted = given.sum(0), positive.sum(0)
    hits = np.minimum((given * positive).sum(0), claims)
    own = [200 * float(h) / (n + m) if n + m else None for h, n, m in zip(hits, claims, wanted, strict=True)]
    known = [value for value in own if value is not None]
    total = claims.sum() + wanted.sum()
    return LabelMetrics(
        macro_F1=sum(known) / len(known) if known else 0.0,
        micro_F1=200 * float(hits.sum()) / total if total else 0.0,
        precision=100 * float(hits.sum()) / claims.sum() if claims.any() else 100.0,
        recall=100 * float(hits.sum()) / wanted.sum() if wanted.any() else 0.0,
        per_class_F1=tuple(own),
    )


@dataclass(frozen=True)
class Metrics:
    """All metrics of a split: of the ranking, of the labels above the thresholds, and of the labels above 0.5."""

    ranking: RankingMetrics
    labels: LabelMetrics
    at_half: LabelMetrics
    basis: Literal["measured", "estimated"]  # of `labels` and `at_half`; estimated: the true labels are not all known


def evaluate(
    probabilities: npt.NDArray[np.floating],
    split: Split,
    classes: Sequence[str],
    given: npt.NDArray[np.bool_],
    positives: float = 1.0,
) -> Metrics:
    """Return all metrics of probabilities [N, C] and of the labels `given` [N, C] by thresholds, against the labels of a split.

    Where these are incomplete, the metrics of the labels are estimates for images with `positives` true labels each: an observed
    label stands for several (`aevlp.data.prevalence`), and images of which nothing is known are left out.
    """
    ranking = ranking_metrics(probabilities, split.evaluation_labels, classes)
    at_half, observed = probabilities >= 0.5, split.observed
    if split.truth is not None:
        there = split.truth == 1
        return Metrics(ranking, label_metrics(given, there), label_metrics(at_half, there), "measured")
    rows = informative_rows(observed)
    weight = positive_weight(observed[rows], np.full(int(rows.sum()), positives))
    return Metrics(ranking, label_metrics(given[rows], weight), label_metrics(at_half[rows], weight), "estimated")


def over_images(
    compute: Callable[[Tensor], Tensor],
    classifier: Classifier,
    images: Inputs,
    accelerator: Accelerator,
    *,
    flipped: bool = False,
) -> Tensor:
    """Return `compute` of all images in order, float32 [N, ...] on the CPU, the same in every process."""
    batch = EVALUATION_BATCH * accelerator.num_processes
    classifier.eval()
    table, done = torch.empty(0), 0
    with torch.inference_mode(), accelerator.autocast():
        for _, shown in images.batches(PlainOrder(len(images), flipped=flipped), batch, accelerator):
            found = accelerator.gather(compute(shown).float()).cpu()[: len(images) - done]  # the last batch may be padded
            if not done:  # one table: small results, kept, would hold the freed memory of the batches in pieces
                table = found.new_empty(len(images), *found.shape[1:])
            table[done : done + len(found)] = found
            done += len(found)
    return table


def probabilities(
    classifier: Classifier, images: Inputs, accelerator: Accelerator, where: object = "the classifier"
) -> npt.NDArray[np.float32]:
    """Return the probabilities of all images in order, float32 [N, C], the same in every process.

    `where` names the classifier in the refusal of one that gives no numbers.
    """
    table: npt.NDArray[np.float32] = over_images(
        lambda shown: classifier(shown).float().sigmoid(), classifier, images, accelerator
    ).numpy()
    require_finite_output(table, where)
    return table


def by_classifier(classifier: Classifier, inputs: InputFactory, accelerator: Accelerator, where: Path) -> Predict:
    """Return the probabilities of the classifier from the folder `where` as a function of the split."""
    return lambda split: probabilities(classifier, inputs(split), accelerator, where)


def by_teacher(source: Source, *, whole_image: bool) -> Predict:
    """Return the scores of a source's teacher as a function of the split; `whole_image`: without its tiles."""
    assert isinstance(source, Damp)

    def predict(split: Split) -> npt.NDArray[np.float32]:
        scores: npt.NDArray[np.float32] = source.scores(split, whole_image=whole_image).numpy()
        return scores

    return predict


def evaluate_split(
    classifier: Classifier, split: Split, images: Inputs, classes: Sequence[str], accelerator: Accelerator
) -> RankingMetrics:
    """Return the ranking metrics of a split: against its observed labels if the truth is not known."""
    return ranking_metrics(probabilities(classifier, images, accelerator), split.evaluation_labels, classes)
