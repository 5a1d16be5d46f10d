"""aevlp predict: labels for images."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from aevlp.core.errors import UserError, require
from aevlp.core.files import whole_file
from aevlp.core.options import Parser, options_of
from aevlp.core.processes import EngineOptions
from aevlp.core.progress import progress
from aevlp.core.tables import stop_on_closed_pipe
from aevlp.inference.prediction_formats import FORMATS, format_of

if TYPE_CHECKING:
    from aevlp.training.user_features import UserFeatures

log = logging.getLogger("aevlp")
PATHS = (
    "an image, a folder (its images at any depth), a pattern in quotes ('photos/**/*.jpg'), a table (.csv, .tsv or .jsonl with a "
    "column image), or - for names on standard input, one per line; for a model that was trained on features, a .npz of them"
)


def predict(argv: Sequence[str]) -> None:
    """Label images with a trained model."""
    parser = Parser("predict", predict.__doc__ or "")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a trained run, or of a model alone")
    parser.add_argument("paths", nargs="+", metavar="PATH", help=PATHS)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write a .csv or .jsonl (default: list on standard output)")
    parser.add_argument("--format", choices=list(FORMATS), help="what to write (default: as --out ends, else text)")
    parser.add_argument(
        "--calibrated",
        action="store_true",
        help="show probabilities as the calibration corrects them; labels stay (default: false)",
    )
    parser.add_argument("--batch-size", type=int, metavar="N", help="images at once (default: 64; on a CPU 16 on each core)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="threads that read images ahead (default: 2)")
    for option in options_of("", EngineOptions):
        parser.add_option(option)
    given = parser.read(argv)
    require(given.batch_size is None or given.batch_size >= 1, "batch-size", "at least 1", given.batch_size)
    require(given.workers >= 1, "workers", "at least 1", given.workers)
    format_name = format_of(given.out, given.format)
    if given.out is not None and given.out.exists():
        raise UserError(f"--out {given.out}: exists; remove it or choose another name")

    from aevlp.inference.image_names import STANDARD_INPUT, image_names, require_images
    from aevlp.inference.model_location import locate_model

    places = locate_model(given.run)
    if STANDARD_INPUT in given.paths and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("-: standard input belongs to one process, and several run here; name files, a folder or a table")
    rows = _features_of(given.paths)
    if rows is None:
        require_images(given.paths)

    from aevlp.core.engine import make_accelerator
    from aevlp.inference.predict import answers, write_predictions
    from aevlp.inference.predictor import TrainedModel

    engine = EngineOptions(**{key: value for key, value in vars(given).items() if key in ("device", "precision")})
    accelerator = make_accelerator(engine)
    model = TrainedModel(places, device=accelerator.device, precision=engine.precision)
    has_labels = model.thresholds is not None
    layout = FORMATS[format_name](model.classes, has_labels=has_labels)
    if given.calibrated:
        model.require_calibration()
    elif not has_labels:
        log.warning("%s has no thresholds, so no labels are given: aevlp thresholds RUN DATA makes them", given.run)

    pace = {"batch_size": given.batch_size, "workers": given.workers}
    if rows is None:
        model.require_images()
    else:
        model.require_features()
    names = image_names(given.paths) if rows is None else rows.names
    stream = answers(model, names, accelerator, features=rows, calibrated=given.calibrated, **pace)
    if not accelerator.is_main_process:
        deque(stream, maxlen=0)  # its share of the work; the first process writes
        return
    is_seen = given.out is None and sys.stdout.isatty()  # the listing itself is progress enough
    with _output(given.out) as write, nullcontext(_nothing) if is_seen else progress("predicting", None) as advance:
        done = write_predictions(stream, layout, write, advance)
    if given.out is not None:
        log.info("%d images: %s", done, given.out)


def _features_of(paths: Sequence[str]) -> UserFeatures | None:
    """The features in the file that is named, if it is one of features."""
    files = [path for path in paths if Path(path).suffix.lower() == ".npz"]
    if not files:
        return None
    if len(paths) > 1:
        raise UserError(f"{files[0]}: a file of features is asked about alone; name it without other PATHs")

    from aevlp.training.user_features import UserFeatures

    return UserFeatures(files[0], called="")


def _nothing(count: int) -> None:
    """What is done with a progress that is not shown."""


@contextmanager
def _output(out: Path | None) -> Iterator[Callable[[str], object]]:
    """What takes the text: a file that appears when it is whole, or standard output."""
    if out is not None:
        with whole_file(out) as file:
            yield lambda text: file.write(text.encode(errors="surrogateescape"))
        return
    with stop_on_closed_pipe():
        yield _print


def _print(text: str) -> None:
    print(text.encode(errors="surrogateescape").decode(errors="replace"), end="", flush=True)  # names need not be UTF-8
