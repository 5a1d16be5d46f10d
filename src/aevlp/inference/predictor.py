"""A trained model, ready to use: `aevlp.load(RUN)`, and what `aevlp predict` works with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from aevlp.data.images import BadImage, pixels_of, upright_rgb
from aevlp.inference.forward_batches import passes
from aevlp.inference.model_location import ModelLocation, locate_model
from aevlp.models.feature_classifier import FeatureClassifier
from aevlp.models.model_folder import load_classifier
from aevlp.training.calibration import Calibration
from aevlp.training.inputs import read_ahead
from aevlp.training.thresholds import Thresholds, read_thresholds
from aevlp.training.user_features import UserFeatures

ON_A_CPU = 16  # images of a forward pass
ELSEWHERE = 64
AnImage = str | Path | Image.Image
"""The name of a file, or a PIL image of any kind."""
A = TypeVar("A", bound=AnImage)
Floats = npt.NDArray[np.float32]
Images = Sequence[AnImage] | npt.NDArray[np.floating]
"""Images or, for a model that was trained on them, features [N, D]."""


@dataclass(frozen=True)
class Found(Generic[A]):
    """What a model says of a batch of images, in their order."""

    images: list[A]
    """Those that could be read."""
    probabilities: Floats
    """Theirs: [images, C]."""
    bad: list[tuple[A, BadImage]]
    """Those that could not, and why."""


class TrainedModel:
    """A classifier with its thresholds.

    `batch_size` is the number of images in a forward pass; None: 64, or 16 on a CPU, where each core has a batch of its own.
    `workers` threads read images ahead. An image that cannot be read is an error (`BadImage`), except to `stream`.
    """

    def __init__(self, places: ModelLocation, *, device: torch.device, precision: str) -> None:
        self.given, self._device, self._precision = places.given, device, precision
        self._classifier = load_classifier(places.model).to(device).eval().requires_grad_(False)
        self.classes: list[str] = self._classifier.classes
        """Names, in the order of the model's outputs."""
        self.thresholds: Thresholds | None = read_thresholds(places.thresholds, self.classes) if places.thresholds else None
        """From which probability on a label is given; None: the run has none."""
        self._one_at_a_time = Lock()

    def predict(
        self, images: Images, *, calibrated: bool = False, batch_size: int | None = None, workers: int = 2
    ) -> list[dict[str, float]]:
        """Class name -> probability, for each image; `calibrated`: as the run's calibration corrects it.

        A model that was trained on features takes those, [N, D], in the place of images.
        """
        found = self._probabilities(images, batch_size, workers)
        rows = self.calibrated(found) if calibrated else found
        return [dict(zip(self.classes, row, strict=True)) for row in rows.tolist()]

    def labels(self, images: Images, *, batch_size: int | None = None, workers: int = 2) -> list[list[str]]:
        """The names of each image's labels, the surest first: those whose probability reaches the threshold."""
        self.require_thresholds()
        return self.labels_of(self._probabilities(images, batch_size, workers))

    def embed(self, images: Sequence[AnImage], *, batch_size: int | None = None, workers: int = 2) -> Floats:
        """Float32 [N, D]: what the head sees of each image, averaged over the places if it sees a map."""
        self.require_images()
        parts = [self._features(torch.zeros(1, self.image_size, self.image_size, 3, dtype=torch.uint8))[:0].cpu()]
        batches = read_ahead(self._batches(images, batch_size), self._pixels, self.image_size, workers)
        # The classifier listens in on its network for them: one pass at a time.
        for batch, found in passes(batches, self._features, in_threads=False):
            _refuse(batch.bad)
            parts.append(found)
        features: Floats = torch.cat(parts).numpy()
        return features

    def stream(self, batches: Iterable[Sequence[A]], *, workers: int = 2) -> Iterator[Found[A]]:
        """What the model says of each batch, in order. Batches are taken as they are needed, a few ahead.

        Images that cannot be read are told of and left out.
        """
        self.require_images()
        read = read_ahead(batches, self._pixels, self.image_size, workers)
        for batch, found in passes(read, self._probabilities_of, in_threads=self._device.type == "cpu"):
            yield Found(batch.items, found.numpy().reshape(-1, len(self.classes)), batch.bad)

    def stream_rows(self, batches: Iterable[Sequence[str]], features: UserFeatures) -> Iterator[Found[str]]:
        """What the model says of batches of names, each by its row of features."""
        for names in batches:
            yield Found(list(names), self.of_features(features.values(features.rows(names))), [])

    def of_features(self, features: npt.NDArray[np.floating]) -> Floats:
        """Float32 [N, C]: probabilities, of features [N, D]."""
        width = self.require_features().width
        if features.ndim != 2 or features.shape[1] != width:
            shape = list(features.shape)
            raise UserError(f"{self.given}: takes features [N, {width}], not {shape}; compute them as for training")
        with np.errstate(over="ignore"):
            values = features.astype(np.float32)
        if not np.isfinite(values).all():
            raise UserError(f"{self.given}: the features hold a value that is not a finite 32-bit number; compute them again")
        found: Floats = self._probabilities_of(torch.from_numpy(values)).cpu().numpy()
        return found

    def require_images(self) -> None:
        """Refuses a model that was trained on features, not on images."""
        if isinstance(self._classifier, FeatureClassifier):
            raise UserError(f"{self.given}: was trained on features and cannot look at images; give it a .npz of their features")

    def require_features(self) -> FeatureClassifier:
        """The classifier of features; refused if the model is one of images."""
        if not isinstance(self._classifier, FeatureClassifier):
            raise UserError(f"{self.given}: was trained on images and takes no features; name images, or a folder of them")
        return self._classifier

    def labels_of(self, probabilities: npt.NDArray[np.floating]) -> list[list[str]]:
        """The names of the labels given for probabilities [N, C], not calibrated ones, the surest first."""
        above = self.require_thresholds().above(probabilities)
        surest_first = np.argsort(-probabilities, axis=1, kind="stable")
        return [[self.classes[c] for c in order if given[c]] for order, given in zip(surest_first.tolist(), above, strict=True)]

    def calibrated(self, probabilities: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """The probabilities [N, C] as the run's calibration corrects them."""
        return self.require_calibration()(probabilities)

    @property
    def image_size(self) -> int:
        """Images are resized to this many pixels in width and height."""
        self.require_images()
        return self._classifier.images.size

    @property
    def usual_batch(self) -> int:
        """Images in a forward pass, if nothing else is said."""
        return ON_A_CPU if self._device.type == "cpu" else ELSEWHERE

    def require_thresholds(self) -> Thresholds:
        """The thresholds; refused if the run has none."""
        if self.thresholds is None:
            raise UserError(f"{self.given}: no thresholds.json in it; make one with aevlp thresholds {self.given} DATA")
        return self.thresholds

    def require_calibration(self) -> Calibration:
        """The calibration; refused if the run has none."""
        if (found := self.require_thresholds().calibration) is None:
            raise UserError(
                f"{self.given}: no calibration in its thresholds.json, as that takes complete labels; make one with "
                f"aevlp thresholds {self.given} DATA on a set that has them"
            )
        return found

    def _probabilities(self, images: Images, batch_size: int | None, workers: int) -> Floats:
        """[N, C]."""
        if isinstance(images, np.ndarray):
            return self.of_features(images)
        parts = [np.empty((0, len(self.classes)), np.float32)]
        for found in self.stream(self._batches(images, batch_size), workers=workers):
            _refuse(found.bad)
            parts.append(found.probabilities)
        return np.concatenate(parts)

    def _batches(self, images: Sequence[AnImage], batch_size: int | None) -> Iterator[list[AnImage]]:
        if isinstance(images, AnImage):
            raise TypeError("a list of images is wanted, not one image")
        return in_batches(images, self.usual_batch if batch_size is None else batch_size)

    def _pixels(self, image: AnImage) -> npt.NDArray[np.uint8]:
        """Uint8 [S, S, 3]."""
        if not isinstance(image, Image.Image):
            return pixels_of(Path(image), self.image_size)
        try:
            with self._one_at_a_time:  # an image may be in the list twice, and PIL's are not made for several threads
                image.load()
            upright = upright_rgb(image)
        except Exception as error:  # decoders raise nearly anything on a broken file
            name = getattr(image, "filename", "") or "an image that was given"
            raise BadImage(f"{name}: cannot be decoded ({error}); replace it") from error
        return np.asarray(upright.resize((self.image_size, self.image_size), Image.Resampling.BICUBIC))

    # Both are called in threads of their own, where these contexts must be entered anew.

    def _probabilities_of(self, pixels: Tensor) -> Tensor:
        with torch.inference_mode(), autocast(self._device, self._precision):
            logits: Tensor = self._classifier(pixels.to(self._device))
            return logits.float().sigmoid()

    def _features(self, pixels: Tensor) -> Tensor:
        with torch.inference_mode(), autocast(self._device, self._precision):
            return self._classifier.features(pixels.to(self._device))


def in_batches(items: Iterable[A], size: int) -> Iterator[list[A]]:
    """The items, `size` at a time, taken as they are asked for."""
    if size < 1:
        raise ValueError(f"the batch size must be at least 1, not {size}")
    rest = iter(items)
    while batch := list(islice(rest, size)):
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
    """The trained model in a run folder, or in a model folder that was copied out of one."""
    return TrainedModel(locate_model(Path(run)), device=_device(device, precision), precision=precision)


def _device(name: str, precision: str) -> torch.device:
    """What the options mean here, without taking hold of the process as an Accelerator does."""
    best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    there = {"cpu": torch.device("cpu"), "auto": best or torch.device("cpu")} | ({best.type: best} if best else {})
    if name not in there:
        raise UserError(f"device {name}: this machine has none that torch can use; use auto")
    if precision not in ("fp32", "bf16", "fp16"):
        raise UserError(f"precision {precision}: there is none such; use fp32, bf16 or fp16")
    if precision == "fp16" and there[name].type == "cpu":
        raise UserError("precision fp16: a CPU cannot compute in it; use bf16 or fp32")
    return there[name]
