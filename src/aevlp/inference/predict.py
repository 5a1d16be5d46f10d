"""From image names to predictions: in batches, shared among the processes, in order."""

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from accelerate import Accelerator
from accelerate.utils import gather_object

from aevlp.core.engine import make_accelerator
from aevlp.core.errors import UserError
from aevlp.core.files import whole_file
from aevlp.core.processes import EngineOptions
from aevlp.core.progress import progress
from aevlp.core.tables import stop_on_closed_pipe
from aevlp.inference.image_names import count_images, image_names, name_features
from aevlp.inference.model_location import ModelLocation
from aevlp.inference.options import PredictOptions
from aevlp.inference.prediction_formats import PREDICTION_FORMATS, Prediction, PredictionFormat
from aevlp.inference.predictor import BatchOutput, TrainedModel, in_batches
from aevlp.training.user_features import UserFeatures

MOST_WARNINGS = 20
log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class PredictionBatch:
    """The predictions for a batch of images."""

    predictions: list[Prediction]
    bad: list[tuple[str, str]]
    """Name and reason of each image that could not be read."""


def predict_paths(
    location: ModelLocation,
    paths: Sequence[str],
    out: Path | None,
    format: str,
    options: PredictOptions,
    engine: EngineOptions,
    *,
    calibrated: bool = False,
) -> int:
    """Write predictions for the images that PATHs stand for, or for a file of features; return their number.

    They go to the file `out`, which appears when it is complete, or to standard output. Of several processes, the first writes,
    and the others return 0.
    """
    features = UserFeatures(paths[0], called="") if name_features(paths) else None
    accelerator = make_accelerator(engine)
    model = TrainedModel(location, device=accelerator.device, precision=engine.precision)
    has_labels = model.thresholds is not None
    layout = PREDICTION_FORMATS[format](model.classes, has_labels=has_labels)
    if calibrated:
        model.require_calibration()
    elif not has_labels:
        log.warning("%s has no thresholds, so no labels are given: aevlp thresholds RUN DATA makes them", location.given)
    if features is None:
        model.require_images()
    else:
        model.require_features()
    names = image_names(paths) if features is None else features.names
    stream = predict_batches(model, names, accelerator, features=features, calibrated=calibrated, **asdict(options))
    if not accelerator.is_main_process:
        deque(stream, maxlen=0)  # this process does its share of the work; the first writes
        return 0
    if out is None and sys.stdout.isatty():  # a listing on the terminal shows the progress itself
        shown: AbstractContextManager[Callable[[int], None]] = nullcontext(lambda count: None)
    else:
        shown = progress("predicting", count_images(paths) if features is None else len(features.names))
    with _output(out) as write, shown as advance:
        return write_predictions(stream, layout, write, advance)


@contextmanager
def _output(out: Path | None) -> Iterator[Callable[[str], object]]:
    """Within it, a function that writes text to a file, which appears when it is complete, or to standard output."""
    # Names need not be UTF-8.
    if out is not None:
        with whole_file(out) as file:
            yield lambda text: file.write(text.encode(errors="surrogateescape"))
    else:
        with stop_on_closed_pipe():
            yield lambda text: print(text.encode(errors="surrogateescape").decode(errors="replace"), end="", flush=True)


def predict_batches(
    model: TrainedModel,
    names: Iterable[str],
    accelerator: Accelerator,
    *,
    features: UserFeatures | None = None,
    calibrated: bool = False,
    batch_size: int | None = None,
    workers: int = 2,
) -> Iterator[PredictionBatch]:
    """Yield the predictions for image files, or for the features of images, in the order of their names.

    Of several processes, only the first gets them. `calibrated` changes the probabilities but not the labels, because thresholds
    are chosen on uncalibrated probabilities.
    """
    batches = batches_of_process(names, batch_size or model.usual_batch, accelerator.num_processes, accelerator.process_index)
    stream = model.stream(batches, workers=workers) if features is None else model.stream_rows(batches, features)
    own = (_predictions(model, output, calibrated) for output in stream)
    return own if accelerator.num_processes == 1 else _gathered(own, accelerator)


def _predictions(model: TrainedModel, output: BatchOutput[str], calibrated: bool) -> PredictionBatch:
    rows = zip(output.images, *model.labels_and_probabilities(output, calibrated=calibrated), strict=True)
    return PredictionBatch([Prediction(*row) for row in rows], [(name, error.reason) for name, error in output.bad])


def batches_of_process(names: Iterable[str], batch_size: int, processes: int, index: int) -> Iterator[list[str]]:
    """Yield the batches of one process: the one at its index out of every `processes` batches. The last may be empty."""
    for together in in_batches(names, batch_size * processes):
        yield together[index * batch_size : (index + 1) * batch_size]


def _gathered(own: Iterator[PredictionBatch], accelerator: Accelerator) -> Iterator[PredictionBatch]:
    """Yield the batches of all processes in the first process, one of each at a time; yield nothing in the others."""
    while True:
        # Ranks without images (files may come and go) still join the collective calls.
        found: list[PredictionBatch | None] = gather_object([next(own, None)])
        if all(batch is None for batch in found):
            return
        if accelerator.is_main_process:
            yield from (batch for batch in found if batch is not None)


def write_predictions(
    stream: Iterable[PredictionBatch],
    layout: PredictionFormat,
    write: Callable[[str], object],
    advance: Callable[[int], None],
) -> int:
    """Write all predictions and return their number; refuse a stream without any.

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
        none = f"none of the {bad} images could be read" if bad else "standard input named none, or the images are gone"
        raise UserError(f"no image to label: {none}")
    if bad:
        log.warning("%d of %d images could not be read and were left out", bad, done + bad)
    return done
