"""The model behind the service, and the JSON that it answers with."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import accumulate
from math import ceil
from typing import Any

from PIL import Image, UnidentifiedImageError

from aevlp import __version__
from aevlp.config.recipe import read_recipe
from aevlp.core.engine import give_back_memory
from aevlp.data.images import BadImage, upright_rgb
from aevlp.inference.model_location import ModelLocation
from aevlp.inference.predictor import TrainedModel, in_batches
from aevlp.inference.serve.uploads import Limits, Upload
from aevlp.training.run_folder import RunFolder

# Formats of pixels only: decoders of others can start programs (EPS), or they hold no photographs.
IMAGE_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
MOST_PIXELS = Image.MAX_IMAGE_PIXELS or 89_478_485
"""PIL's own limit against small files that decode to huge images."""
REQUEST_PIXELS = 400_000_000  # 32 photographs of a telephone
LARGE = 20_000_000  # pixels of a request whose memory is given back at once
FIGURES = ("mAP", "mAP_present", "val_mAP", "labels", "epochs", "best_epoch", "seed")


@dataclass(frozen=True)
class ImagePrediction:
    """The prediction for one image."""

    name: str
    labels: list[str] | None
    """Labels that reach their thresholds, the surest first; null: the model has no thresholds."""
    probabilities: dict[str, float]
    """By class name, in the order of the classes."""


@dataclass(frozen=True)
class UnreadableImage:
    """An image that could not be read, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class PredictResponse:
    """The predictions for the images of a request, in their order."""

    images: list[ImagePrediction]
    errors: list[UnreadableImage]


@dataclass(frozen=True)
class PlattCalibration:
    """A calibrated probability is sigmoid(slope * logit(p) + offset)."""

    slope: float
    offset: float


@dataclass(frozen=True)
class ModelInfo:
    """A description of the model."""

    name: str
    method: str | None
    """Null for a model that was copied out of its run."""
    classes: list[str]
    thresholds: dict[str, float] | None
    calibration: PlattCalibration | None
    image_size: int
    """Images are resized to this many pixels in width and height."""
    figures: dict[str, Any] | None
    """Figures from the run's result.json: mAP and F1 in percent, on the test images."""
    warnings: list[str]
    """Those of the run: that the model is not clearly better than its teacher, for example."""
    limits: Limits
    version: str
    """Version of aevlp."""


class Service:
    """Labels uploaded images. `workers` threads decode them; `cores` batches run side by side on the model's device."""

    def __init__(self, model: TrainedModel, *, workers: int, cores: int) -> None:
        self._model, self._cores, self._size = model, cores, model.image_size
        self._readers = ThreadPoolExecutor(workers, "reader")
        # One request at a time: a forward pass uses all cores, and sets torch's threads.
        self._runner = ThreadPoolExecutor(1, "model")

    async def predict(self, uploads: Sequence[Upload], *, calibrated: bool = False) -> PredictResponse:
        """Predict labels for images without blocking the event loop. Labels do not depend on `calibrated`."""
        loop = asyncio.get_running_loop()
        pixels = await asyncio.gather(*(loop.run_in_executor(self._readers, pixels_of_upload, upload) for upload in uploads))
        total = list(accumulate(pixels))
        read = await asyncio.gather(
            *(
                loop.run_in_executor(self._readers, self._read, upload, so_far)
                for upload, so_far in zip(uploads, total, strict=True)
            )
        )
        named = [(upload.name, result) for upload, result in zip(uploads, read, strict=True)]
        errors = [UnreadableImage(name, result.reason) for name, result in named if isinstance(result, BadImage)]
        images = [(name, result) for name, result in named if isinstance(result, Image.Image)]
        predictions = await loop.run_in_executor(self._runner, self._predictions, images, calibrated)
        if total and total[-1] > LARGE:
            await loop.run_in_executor(self._readers, give_back_memory)
        return PredictResponse(predictions, errors)

    def close(self) -> None:
        """End the threads after their current work."""
        for pool in (self._readers, self._runner):
            pool.shutdown(cancel_futures=True)

    def _read(self, upload: Upload, pixels: int) -> Image.Image | BadImage:
        """Return an image as the model takes it. `pixels` are those of the request up to this image."""
        if pixels > REQUEST_PIXELS:
            return BadImage(f"the request has too many pixels (more than {REQUEST_PIXELS:,}); send fewer images at once")
        try:
            return decode(upload.content, self._size)
        except BadImage as error:
            return error

    def _predictions(self, images: Sequence[tuple[str, Image.Image]], calibrated: bool) -> list[ImagePrediction]:
        model, names = self._model, iter([name for name, _ in images])
        batch = max(1, min(model.usual_batch, ceil(len(images) / self._cores)))
        predictions = []
        for output in model.stream(in_batches([image for _, image in images], batch), workers=1):
            for given, row in zip(*model.labels_and_probabilities(output, calibrated=calibrated), strict=True):
                # Seven digits, as `aevlp predict` writes them: more would be noise in a float32.
                rounded = {name: float(f"{p:.7g}") for name, p in zip(model.classes, row, strict=True)}
                predictions.append(ImagePrediction(next(names), given, rounded))
        return predictions


def decode(content: bytes, size: int) -> Image.Image:
    """Return an uploaded image as RGB, size x size: the pixels that `aevlp predict` uses. Raise BadImage if it cannot be read."""
    try:
        with Image.open(BytesIO(content), formats=_known_formats()) as image:
            if _pixels(image) > MOST_PIXELS:
                raise Image.DecompressionBombError(_too_many(_width(image)))
            image.load()
            return upright_rgb(image).resize((size, size), Image.Resampling.BICUBIC)
    except Exception as error:  # decoders raise nearly anything on a broken file
        raise BadImage(_reason(content, error)) from error


def pixels_of_upload(upload: Upload) -> int:
    """Return the number of pixels that an image says it has, without decoding it; 0 if it will not be decoded."""
    try:
        with Image.open(BytesIO(upload.content), formats=_known_formats()) as image:
            found = _pixels(image)
    except Exception:  # the reason is found where it is decoded
        return 0
    return found if found <= MOST_PIXELS else 0


def _pixels(image: Image.Image) -> int:
    """Return the number of pixels; those of a wide number count as its bytes, since it is converted."""
    return image.width * image.height * _width(image)


def _width(image: Image.Image) -> int:
    """Return the bytes of a pixel that is one wide number; 1 for colours and for grey of eight bits."""
    return {"I": 4, "F": 4}.get(image.mode, 2 if image.mode.startswith("I;16") else 1)


def _too_many(width: int = 1) -> str:
    return f"too many pixels (more than {MOST_PIXELS // width:,}{f' of {width} bytes' if width > 1 else ''})"


@cache
def _known_formats() -> tuple[str, ...]:
    """Return the formats that this installation of PIL can read."""
    Image.init()
    return tuple(name for name in IMAGE_FORMATS if name in Image.OPEN)


def _reason(content: bytes, error: Exception) -> str:
    text = " ".join(str(error).split())
    if not content:
        return "an empty file"
    if isinstance(error, Image.DecompressionBombError):
        return text if text.startswith("too many") else _too_many()
    if isinstance(error, UnidentifiedImageError):
        return "not an image, or of an unknown format"
    if "truncated" in text.lower() or isinstance(error, EOFError):
        return "truncated: the end of the file is missing"
    return f"damaged ({text or type(error).__name__})"


def model_info(location: ModelLocation, model: TrainedModel, megabytes: int) -> ModelInfo:
    """Describe a model from its own files and, if it lies in a run, the run's. No path of this machine is included.

    An image may have at most so many million bytes.
    """
    run = RunFolder(location.model.resolve().parent)
    is_run = run.config.is_file()
    result = (run.read_result() or {}) if is_run else {}
    thresholds = model.thresholds
    calibration = thresholds.calibration if thresholds is not None else None
    return ModelInfo(
        name=run.path.name if is_run else location.model.resolve().name,
        method=(result.get("method") or read_recipe(run.config).get("method")) if is_run else None,
        classes=model.classes,
        thresholds=dict(thresholds.classes) if thresholds is not None else None,
        calibration=None if calibration is None else PlattCalibration(calibration.slope, calibration.offset),
        image_size=model.image_size,
        figures={name: result[name] for name in FIGURES if name in result} or None,
        warnings=list(result.get("warnings") or ()),
        limits=Limits(
            files=32,
            file_bytes=megabytes * 1_000_000,
            request_bytes=5 * megabytes * 1_000_000,
            pixels=MOST_PIXELS,
            request_pixels=REQUEST_PIXELS,
        ),
        version=__version__,
    )
