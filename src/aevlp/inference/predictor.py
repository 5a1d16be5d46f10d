"""A trained model, ready to use: the result of `aevlp.load(RUN)`, and the core of `aevlp predict`."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from aevlp.core.engine import autocast
from aevlp.core.errors import UserError
from aevlp.core.remote import location
from aevlp.core.torch_threads import one_thread_per_core
from aevlp.data.images import BadImage, pixels_of, upright_rgb
from aevlp.inference.model_location import ModelLocation, locate_model
from aevlp.models.feature_classifier import FeatureClassifier
from aevlp.models.model_folder import load_classifier
from aevlp.models.safe_loading import require_finite_output
from aevlp.training.calibration import Calibration
from aevlp.training.inputs import ReadBatch, read_ahead
from aevlp.training.thresholds import Thresholds, read_thresholds
from aevlp.training.user_features import UserFeatures

CPU_BATCH, GPU_BATCH = 16, 64  # images in a forward pass
AnImage = str | Path | Image.Image
"""The path of a file, or a PIL image of any mode."""
A = TypeVar("A", bound=AnImage)
T = TypeVar("T")
Floats = npt.NDArray[np.float32]
Images = Sequence[AnImage] | npt.NDArray[np.floating]
"""Images or, for a model that was trained on features, features [N, D]."""


@dataclass(frozen=True)
class BatchOutput(Generic[A]):
    """The model's output for a batch of images, in their order."""

    images: list[A]
    """The images that could be read."""
    probabilities: Floats
    """Their probabilities, [images, C]."""
    bad: list[tuple[A, BadImage]]
    """The images that could not be read, and why."""


class TrainedModel:
    """A classifier with its thresholds.

    `batch_size` is the number of images in a forward pass; None: 64, or 16 on a CPU, where each core has a batch of its own.
    `workers` threads read images ahead. An image that cannot be read raises `BadImage`, except in `stream`.
    """

    def __init__(self, location: ModelLocation, *, device: torch.device, precision: str) -> None:
        self.given, self._device, self._precision = location.given, device, precision
        self._classifier = load_classifier(location.model).to(device).eval().requires_grad_(False)
        self.classes: list[str] = self._classifier.classes
        """Names, in the order of the model's outputs."""
        self.thresholds: Thresholds | None = read_thresholds(location.thresholds, self.classes) if location.thresholds else None
        """The least probability of each label that is given; None: the run has no thresholds."""
        self._one_at_a_time = Lock()

    def predict(
        self, images: Images, *, calibrated: bool = False, batch_size: int | None = None, workers: int = 2
    ) -> list[dict[str, float]]:
        """Return class name -> probability for each image; with `calibrated`, corrected by the run's calibration.

        A model that was trained on features takes features [N, D] instead of images.
        """
        found = self._probabilities(images, batch_size, workers)
        rows = self.require_calibration()(found) if calibrated else found
        return [dict(zip(self.classes, row, strict=True)) for row in rows.tolist()]

    def labels(self, images: Images, *, batch_size: int | None = None, workers: int = 2) -> list[list[str]]:
        """Return each image's labels whose probability reaches the threshold, the surest first."""
        self.require_thresholds()
        return self.labels_of(self._probabilities(images, batch_size, workers))

    def embed(self, images: Sequence[AnImage], *, batch_size: int | None = None, workers: int = 2) -> Floats:
        """Return the head's input for each image, float32 [N, D]; a feature map is averaged over its positions."""
        self.require_images()
        parts = [self._features(torch.zeros(1, self.image_size, self.image_size, 3, dtype=torch.uint8))[:0].cpu()]
        batches = read_ahead(self._batches(images, batch_size), self._pixels, self.image_size, workers)
        # The classifier records features with a hook on its network: one pass at a time.
        for batch, found in forward_batches(batches, self._features, in_threads=False):
            _refuse(batch.bad)
            parts.append(found)
        features: Floats = torch.cat(parts).numpy()
        return features

    def stream(self, batches: Iterable[Sequence[A]], *, workers: int = 2) -> Iterator[BatchOutput[A]]:
        """Yield the output for each batch, in order. Batches are taken as they are needed, a few ahead.

        Images that cannot be read are left out of the output and listed in `bad`.
        """
        self.require_images()
        read = read_ahead(batches, self._pixels, self.image_size, workers)
        for batch, found in forward_batches(read, self._probabilities_of, in_threads=self._device.type == "cpu"):
            probabilities: Floats = found.numpy().reshape(-1, len(self.classes))
            require_finite_output(probabilities, self.given)
            yield BatchOutput(batch.items, probabilities, batch.bad)

    def stream_rows(self, batches: Iterable[Sequence[str]], features: UserFeatures) -> Iterator[BatchOutput[str]]:
        """Yield the output for batches of names, each name with its row of features."""
        for names in batches:
            yield BatchOutput(list(names), self.of_features(features.values(features.rows(names))), [])

    def of_features(self, features: npt.NDArray[np.floating]) -> Floats:
        """Return probabilities, float32 [N, C], of features [N, D]."""
        width = self.require_features().width
        if features.ndim != 2 or features.shape[1] != width:
            shape = list(features.shape)
            raise UserError(f"{self.given}: takes features [N, {width}], not {shape}; compute them as for training")
        with np.errstate(over="ignore"):
            values = features.astype(np.float32)
        if not np.isfinite(values).all():
            raise UserError(f"{self.given}: the features hold a value that is not a finite 32-bit number; compute them again")
        found: Floats = self._probabilities_of(torch.from_numpy(values)).cpu().numpy()
        require_finite_output(found, self.given)
        return found

    def require_images(self) -> None:
        """Refuse a model that was trained on features."""
        if isinstance(self._classifier, FeatureClassifier):
            raise UserError(f"{self.given}: was trained on features and cannot look at images; give it a .npz of their features")

    def require_features(self) -> FeatureClassifier:
        """Return the classifier of features; refuse a model that was trained on images."""
        if not isinstance(self._classifier, FeatureClassifier):
            raise UserError(f"{self.given}: was trained on images and takes no features; name images, or a folder of them")
        return self._classifier

    def labels_of(self, probabilities: npt.NDArray[np.floating]) -> list[list[str]]:
        """Return the labels of each image for uncalibrated probabilities [N, C], the surest first."""
        above = self.require_thresholds().above(probabilities)
        surest_first = np.argsort(-probabilities, axis=1, kind="stable")
        return [[self.classes[c] for c in order if given[c]] for order, given in zip(surest_first.tolist(), above, strict=True)]

    def labels_and_probabilities(
        self, output: BatchOutput[A], *, calibrated: bool
    ) -> tuple[Sequence[list[str] | None], list[list[float]]]:
        """Return the labels of each image (None without thresholds), and its probabilities, which alone may be calibrated."""
        found = output.probabilities
        labels = [None] * len(found) if self.thresholds is None else self.labels_of(found)
        return labels, (self.require_calibration()(found) if calibrated else found).tolist()

    @property
    def image_size(self) -> int:
        """Images are resized to this many pixels in width and height."""
        self.require_images()
        return self._classifier.images.size

    @property
    def usual_batch(self) -> int:
        """The default number of images in a forward pass."""
        return CPU_BATCH if self._device.type == "cpu" else GPU_BATCH

    def require_thresholds(self) -> Thresholds:
        """Return the thresholds; refuse a run without them."""
        if self.thresholds is None:
            raise UserError(f"{self.given}: no thresholds.json in it; make one with aevlp thresholds {self.given} DATA")
        return self.thresholds

    def require_calibration(self) -> Calibration:
        """Return the calibration; refuse a run without one."""
        if (calibration := self.require_thresholds().calibration) is None:
            raise UserError(
                f"{self.given}: no calibration in its thresholds.json, as that takes complete labels; make one with "
                f"aevlp thresholds {self.given} DATA on a set that has them"
            )
        return calibration

    def _probabilities(self, images: Images, batch_size: int | None, workers: int) -> Floats:
        if isinstance(images, np.ndarray):
            return self.of_features(images)
        parts = [np.empty((0, len(self.classes)), np.float32)]
        for found in self.stream(self._batches(images, batch_size), workers=workers):
            _refuse(found.bad)
            parts.append(found.probabilities)
        return np.concatenate(parts)

    def _batches(self, images: Sequence[AnImage], batch_size: int | None) -> Iterator[list[AnImage]]:
        if isinstance(images, AnImage):
            raise TypeError("expected a list of images, not one image")
        return in_batches(images, self.usual_batch if batch_size is None else batch_size)

    def _pixels(self, image: AnImage) -> npt.NDArray[np.uint8]:
        """Return the image as the classifier takes it, uint8 [S, S, 3]."""
        if not isinstance(image, Image.Image):
            return pixels_of(location(image), self.image_size)
        try:
            with self._one_at_a_time:  # the same image may be listed twice, and PIL images are not thread-safe
                image.load()
            upright = upright_rgb(image)
        except Exception as error:  # decoders raise nearly anything on a broken file
            name = getattr(image, "filename", "") or "an image that was given"
            raise BadImage(f"{name}: cannot be decoded ({error}); replace it") from error
        return np.asarray(upright.resize((self.image_size, self.image_size), Image.Resampling.BICUBIC))

    # Both run in threads of their own, and these contexts hold for one thread only.

    def _probabilities_of(self, pixels: Tensor) -> Tensor:
        with torch.inference_mode(), autocast(self._device, self._precision):
            logits: Tensor = self._classifier(pixels.to(self._device))
            return logits.float().sigmoid()

    def _features(self, pixels: Tensor) -> Tensor:
        with torch.inference_mode(), autocast(self._device, self._precision):
            return self._classifier.features(pixels.to(self._device))


def forward_batches(
    batches: Iterable[ReadBatch[T]], compute: Callable[[Tensor], Tensor], *, in_threads: bool
) -> Iterator[tuple[ReadBatch[T], Tensor]]:
    """Yield each batch with the result of `compute` on its pixels, on the CPU, in order; [0] for a batch without images.

    `in_threads`, for a CPU: `compute` is called from as many threads as torch uses, each on a core of its own, so that no core
    waits for another while the next images are read. Any other device has the next batch while a result is fetched.
    """
    waiting: deque[tuple[ReadBatch[T], Callable[[], Tensor]]] = deque()

    def first() -> tuple[ReadBatch[T], Tensor]:
        batch, result = waiting.popleft()
        return batch, result().cpu()

    with one_thread_per_core() if in_threads else nullcontext() as pool:
        ahead = 2 * torch.get_num_threads() if in_threads else 1

        def submit(pixels: Tensor) -> Callable[[], Tensor]:
            if pool is not None and len(pixels):
                return pool.submit(compute, pixels).result
            found = compute(pixels) if len(pixels) else torch.empty(0)
            return lambda: found

        for batch in batches:
            waiting.append((batch, submit(batch.pixels)))
            if len(waiting) > ahead:
                yield first()
        while waiting:
            yield first()


def in_batches(items: Iterable[A], size: int) -> Iterator[list[A]]:
    """Yield the items in lists of `size`, taken as they are needed."""
    if size < 1:
        raise ValueError(f"the batch size must be at least 1, not {size}")
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def _refuse(bad: Sequence[tuple[AnImage, BadImage]]) -> None:
    for _, error in bad:
        raise error


def load(
    run: str | Path,
    *,
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    precision: Literal["fp32", "bf16", "fp16"] = "fp32",
) -> TrainedModel:
    """Load the trained model in a run folder, in a model folder that was copied out of one, or on the hub (`hub:OWNER/NAME`)."""
    return TrainedModel(locate_model(Path(run)), device=_device(device, precision), precision=precision)


def _device(name: str, precision: str) -> torch.device:
    """Return the device for the options, without the process-wide state that an Accelerator sets up."""
    best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    available = {"cpu": torch.device("cpu"), "auto": best or torch.device("cpu")} | ({best.type: best} if best else {})
    if name not in available:
        raise UserError(f"device {name}: this machine has none that torch can use; use auto")
    if precision not in ("fp32", "bf16", "fp16"):
        raise UserError(f"precision {precision}: no such precision; use fp32, bf16 or fp16")
    if precision == "fp16" and available[name].type == "cpu":
        raise UserError("precision fp16: a CPU cannot compute in it; use bf16 or fp32")
    return available[name]
