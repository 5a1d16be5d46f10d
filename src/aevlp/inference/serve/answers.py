"""What the service says, as it stands in its JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Labelled:
    """What the model says of one image."""

    name: str
    labels: list[str] | None
    """Those that reach their thresholds, the surest first; null: the model has no thresholds."""
    probabilities: dict[str, float]
    """By class name, in the order of the classes."""


@dataclass(frozen=True)
class Unreadable:
    """An image that could not be read, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Answer:
    """What is said of the images of a request, in their order."""

    images: list[Labelled]
    errors: list[Unreadable]


@dataclass(frozen=True)
class Correction:
    """A calibrated probability is sigmoid(slope * logit(p) + offset)."""

    slope: float
    offset: float


@dataclass(frozen=True)
class Limits:
    """What a request may bring."""

    files: int
    file_bytes: int
    """Of one image."""
    request_bytes: int
    """Of all of them together: they are in memory until the request is answered."""


def limits_for(megabytes: int) -> Limits:
    """The limits where an image may have so many million bytes."""
    return Limits(files=32, file_bytes=megabytes * 1_000_000, request_bytes=5 * megabytes * 1_000_000)


@dataclass(frozen=True)
class About:
    """What the model is."""

    name: str
    method: str | None
    """Null where a model was copied out of its run."""
    classes: list[str]
    thresholds: dict[str, float] | None
    calibration: Correction | None
    image_size: int
    """Images are resized to this many pixels in width and height."""
    figures: dict[str, Any] | None
    """Those of the run's result.json: mAP and F1 in percent, on the test images."""
    limits: Limits
    version: str
    """Of aevlp."""
