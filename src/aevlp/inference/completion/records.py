"""Completed labels of one image, as the file formats write them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Score:
    """Probability that an image has a label, 0 to 1."""

    confidence: float
    """Probability by all predictors together."""
    predictors: Mapping[str, float]
    """Probability by each predictor alone: `teacher`, `model`, or both."""


@dataclass(frozen=True)
class Completed:
    """One image. No class is in two of `observed`, `absent`, `proposed` and `proposed_absent`."""

    name: str
    """File name, relative to the image set's folder."""
    split: str
    """train, val or test."""
    observed: tuple[str, ...]
    """Labels that were given; they are never taken away."""
    absent: tuple[str, ...]
    """Labels that were given as absent."""
    proposed: Mapping[str, Score]
    """Labels that the image probably has too, the surest first."""
    proposed_absent: Mapping[str, Score]
    """Labels that the image probably does not have, the surest first."""
    doubted: Mapping[str, Score]
    """Labels in `observed` that every predictor doubts."""

    @property
    def positives(self) -> tuple[str, ...]:
        """Labels that the image has: the given ones, then the proposed ones."""
        return (*self.observed, *self.proposed)

    @property
    def negatives(self) -> tuple[str, ...]:
        """Labels that the image does not have: the given ones, then the proposed ones."""
        return (*self.absent, *self.proposed_absent)
