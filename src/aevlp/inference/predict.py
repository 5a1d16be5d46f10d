"""From image names to predictions: in batches, shared among the processes, in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelerate.utils import gather_object

from aevlp.core.errors import UserError
from aevlp.inference.prediction_formats import Format, Prediction
from aevlp.inference.predictor import Found, TrainedModel, in_batches
from aevlp.training.user_features import UserFeatures

if TYPE_CHECKING:
    from accelerate import Accelerator

MOST_WARNINGS = 20
log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class Answers:
    """What is said of a batch of images."""

    predictions: list[Prediction]
    bad: list[tuple[str, str]]
    """Name and reason of those that could not be read."""


def answers(
    model: TrainedModel,
    names: Iterable[str],
    accelerator: Accelerator,
    *,
    features: UserFeatures | None = None,
    calibrated: bool = False,
    batch_size: int | None = None,
    workers: int = 2,
) -> Iterator[Answers]:
    """What the model says of image files, or of the features of images, in the order of their names.

    Of several processes, the first hears it all.

    Labels are given by the probabilities as they are: that is what thresholds were chosen on. `calibrated` changes what is shown.
    """
    batches = shares(names, batch_size or model.usual_batch, accelerator.num_processes, accelerator.process_index)
    stream = model.stream(batches, workers=workers) if features is None else model.stream_rows(batches, features)
    mine = (_answers(model, found, calibrated) for found in stream)
    return mine if accelerator.num_processes == 1 else _gathered(mine, accelerator)


def _answers(model: TrainedModel, found: Found[str], calibrated: bool) -> Answers:
    labels = model.labels_of(found.probabilities) if model.thresholds is not None else [None] * len(found.images)
    shown = model.calibrated(found.probabilities) if calibrated else found.probabilities
    rows = zip(found.images, labels, shown.tolist(), strict=True)
    return Answers([Prediction(*row) for row in rows], [(name, error.reason) for name, error in found.bad])


def shares(names: Iterable[str], batch_size: int, processes: int, index: int) -> Iterator[list[str]]:
    """The batches of one process out of several: of each `processes` batches the one in its place; the last may be empty."""
    for together in in_batches(names, batch_size * processes):
        yield together[index * batch_size : (index + 1) * batch_size]


def _gathered(mine: Iterator[Answers], accelerator: Accelerator) -> Iterator[Answers]:
    """All processes' answers, a batch of each at a time, in the first process; in the others none."""
    while True:
        # A process that sees fewer names than the others, as files come and go, keeps up with empty hands.
        found: list[Answers | None] = gather_object([next(mine, None)])
        if all(one is None for one in found):
            return
        if accelerator.is_main_process:
            yield from (one for one in found if one is not None)


def write_predictions(
    stream: Iterable[Answers], layout: Format, write: Callable[[str], object], advance: Callable[[int], None]
) -> int:
    """The number of predictions, after all are written; a stream without any is refused.

    Images that could not be read are warned of as they come, and counted at the end.
    """
    done = bad = 0
    write(layout.head)
    for batch in stream:
        for name, reason in batch.bad:
            bad += 1
            if bad <= MOST_WARNINGS:
                log.warning("%s: %s; left out", name, reason)
            elif bad == MOST_WARNINGS + 1:
                log.warning("more images cannot be read; from here on they are only counted")
        write("".join(map(layout.text, batch.predictions)))
        done += len(batch.predictions)
        advance(len(batch.predictions) + len(batch.bad))
    if not done:
        raise UserError(f"none of the {bad} images could be read" if bad else "no image was named on standard input")
    if bad:
        log.warning("%d of %d images could not be read and were left out", bad, done + bad)
    return done
