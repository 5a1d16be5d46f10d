"""Options of the commands that use a trained model or a teacher: label, predict and serve."""

from dataclasses import dataclass
from typing import Annotated, Literal

from aevlp.core.errors import UserError
from aevlp.core.options import AtLeast, Between, Options


@dataclass(frozen=True)
class LabelOptions(Options):
    """Options of `aevlp label`."""

    out_format: str | None = None
    """Format of the file; null: the one that its name ends in."""
    image_prefix: str | None = None
    """Beginning of the images' addresses, in a format that has addresses; null: the format's own."""
    run: str | None = None
    """Run folder whose model is used as a predictor; null: the teacher is the only predictor."""
    folds: Annotated[int, AtLeast(2)] | None = None
    """Train this many models like the run's and score each image with one that has not seen it; null: use the run's own model."""
    witness: Literal["teacher", "model", "both"] | None = None
    """Predictors to use; null: the teacher, and the model if --run names one."""
    min_precision: Annotated[float, Between(0, 1, excludes_low=True)] | None = None
    """Propose as many labels as keep this precision by the lower end of its 90 % interval, which takes fully labelled images;
    null: the best F1."""
    min_confidence: Annotated[float, Between(0, 1, excludes_low=True)] | None = None
    """Propose the labels of at least this confidence; null: the best F1."""
    min_negative_precision: Annotated[float, Between(0, 1, excludes_low=True)] = 0.99
    """Propose as many absences as this precision allows."""

    def __post_init__(self) -> None:
        """Check that there is one rule for the cut."""
        super().__post_init__()
        if self.min_precision is not None and self.min_confidence is not None:
            raise UserError("--min-precision and --min-confidence exclude each other: leave one out")


@dataclass(frozen=True)
class PredictOptions(Options):
    """Options of `aevlp predict` that decide how fast it is."""

    batch_size: Annotated[int, AtLeast(1)] | None = None
    """Images in a forward pass; null: 64, or 16 for each core of a CPU."""
    workers: Annotated[int, AtLeast(1)] = 2
    """Threads that read images ahead."""


@dataclass(frozen=True)
class ServeOptions(Options):
    """Options of `aevlp serve`."""

    host: str = "127.0.0.1"
    """Address to listen at; the default is for this machine alone."""
    port: Annotated[int, Between(0, 65535)] = 8000
    """Port to listen at; 0: any free one."""
    max_megabytes: Annotated[int, AtLeast(1)] = 20
    """Largest image to accept."""
    workers: Annotated[int, AtLeast(1)] = 2
    """Threads that read images."""
