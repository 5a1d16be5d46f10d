"""aevlp predict: labels for images."""

import logging
import os
from collections.abc import Sequence

from aevlp.cli.arguments import options_from
from aevlp.core.errors import UserError
from aevlp.core.options import Parser, options_of
from aevlp.core.processes import EngineOptions
from aevlp.core.remote import local_path
from aevlp.core.tables import next_steps
from aevlp.inference.image_names import STANDARD_INPUT, name_features, require_images
from aevlp.inference.model_location import locate_model
from aevlp.inference.options import PredictOptions
from aevlp.inference.prediction_formats import PREDICTION_FORMATS, format_name

log = logging.getLogger("aevlp")
PATHS = (
    "an image, a folder (its images at any depth), a pattern in quotes ('photos/**/*.jpg'), a table (.csv, .tsv or .jsonl with a "
    "column image), or - for names on standard input, one per line; for a model that was trained on features, a .npz of them"
)


def predict(argv: Sequence[str]) -> None:
    """Label images with a trained model."""
    parser = Parser("predict", predict.__doc__ or "", "aevlp predict runs/first new-photos --out found.csv")
    parser.add_argument("run", type=local_path, metavar="RUN", help="folder of a trained run or of a model alone, or hub:NAME")
    parser.add_argument("paths", nargs="+", metavar="PATH", help=PATHS)
    parser.add_argument(
        "--out", type=local_path, metavar="FILE", help="write a .csv or .jsonl (default: list on standard output)"
    )
    parser.add_argument(
        "--format", choices=list(PREDICTION_FORMATS), help="format to write (default: by the name of --out, else text)"
    )
    parser.add_argument(
        "--calibrated", action="store_true", help="show calibrated probabilities; labels stay the same (default: false)"
    )
    for option in [*options_of("", PredictOptions), *options_of("", EngineOptions)]:
        parser.add_option(option)
    given = parser.read(argv)
    options, engine = options_from(given, PredictOptions), options_from(given, EngineOptions)
    format = format_name(given.out, given.format)
    if given.out is not None and given.out.exists():
        raise UserError(f"--out {given.out}: exists; remove it or choose another name")
    location = locate_model(given.run)
    if STANDARD_INPUT in given.paths and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UserError("-: standard input belongs to one process, and several run here; name files, a folder or a table")
    if not name_features(given.paths):
        require_images(given.paths)

    from aevlp.inference.predict import predict_paths

    done = predict_paths(location, given.paths, given.out, format, options, engine, calibrated=given.calibrated)
    if given.out is not None and done:
        log.info("%d images: %s", done, given.out)
    elif done:  # on standard error: standard output has the labels
        log.info("%s", next_steps(["predict", given.run, *given.paths, "--out", "found.csv"]))
