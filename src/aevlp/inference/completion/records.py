"""What is said of an image when its labels are completed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Opinion:
    """How sure it is that an image has a label: all witnesses together, and each alone. Probabilities, 0 to 1."""

    confidence: float
    witnesses: Mapping[str, float]
    """Who -> what it said: `teacher`, `model`, or both."""


@dataclass(frozen=True)
class Completed:
    """One image. No class is in two of `observed`, `absent`, `proposed` and `proposed_absent`."""

    name: str
    """Of the file, relative to the image set's folder."""
    split: str
    """train, val or test."""
    observed: tuple[str, ...]
    """Labels that were given; they are never taken away."""
    absent: tuple[str, ...]
    """Labels that were given as absent."""
    proposed: Mapping[str, Opinion]
    """Labels that it probably has too, the surest first."""
    proposed_absent: Mapping[str, Opinion]
    """Labels that it probably does not have, the surest first."""
    doubted: Mapping[str, Opinion]
    """Those of `observed` that all witnesses doubt."""
