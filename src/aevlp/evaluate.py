"""What a classifier says of images, and how good that is: mean average precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from aevlp.data.splits import Split
from aevlp.loader import ImageBatches, PlainOrder
from aevlp.model import Classifier

if TYPE_CHECKING:
    from accelerate import Accelerator

EVALUATION_BATCH = 64  # images per process


@dataclass(frozen=True)
class Evaluation:
    """Figures of one split, in percent. `mAP` counts a class without a positive as 0, `mAP_present` leaves it out."""

    mAP: float
    mAP_present: float
    per_class_AP: dict[str, float | None]  # class name -> average precision; None: no positive in the split


def evaluate(probabilities: npt.NDArray[np.floating], labels: npt.NDArray[np.int8], classes: Sequence[str]) -> Evaluation:
    """Average precision (scikit-learn's definition) of probabilities [N, C] against labels [N, C], where 1 is positive."""
    from sklearn.metrics import average_precision_score

    truth = labels == 1
    per_class = {
        name: 100 * float(average_precision_score(truth[:, c], probabilities[:, c])) if truth[:, c].any() else None
        for c, name in enumerate(classes)
    }
    present = [value for value in per_class.values() if value is not None]
    total = sum(present)
    return Evaluation(total / len(classes), total / len(present) if present else 0.0, per_class)


def over_images(
    compute: Callable[[Tensor], Tensor], classifier: Classifier, paths: Sequence[Path], workers: int, accelerator: Accelerator
) -> Tensor:
    """Float32 [N, ...] on the CPU: what `compute` makes of the pixels of files, in their order, the same in every process."""
    batch = EVALUATION_BATCH * accelerator.num_processes
    classifier.eval()
    found = []
    with torch.inference_mode(), accelerator.autocast():
        for _, pixels in ImageBatches(paths, classifier.images.size, PlainOrder(len(paths)), batch, workers, accelerator):
            found.append(accelerator.gather(compute(pixels).float()).cpu())
    return torch.cat(found)[: len(paths)]  # the last batch may have been filled up


def probabilities(
    classifier: Classifier, paths: Sequence[Path], workers: int, accelerator: Accelerator
) -> npt.NDArray[np.float32]:
    """Float32 [N, C] of image files, in their order, the same in every process."""
    table: npt.NDArray[np.float32] = over_images(
        lambda pixels: classifier(pixels).float().sigmoid(), classifier, paths, workers, accelerator
    ).numpy()
    return table


def evaluate_split(
    classifier: Classifier, split: Split, classes: Sequence[str], workers: int, accelerator: Accelerator
) -> Evaluation:
    """The classifier's figures on a split; against its observed labels if the truth is not known."""
    found = probabilities(classifier, split.paths, workers, accelerator)
    return evaluate(found, split.judged_by, classes)
