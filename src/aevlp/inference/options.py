"""Options of the commands that use a trained model, a teacher or their labels: label, predict, serve and review."""

from dataclasses import dataclass
from typing import Annotated, Literal

from aevlp.core.errors import UserError
from aevlp.core.options import AtLeast, Between, Options

SHORTEST_TOKEN = 8  # letters


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
    max_lost: Annotated[float, Between(0, 1)] = 0.05
    """Propose as many absences as lose at most this share of the labels to find, as far as the known labels tell. 0: none."""

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
    public_host: str | None = None
    """Name that a reverse proxy is reached by, if it passes that name on; null: only the names of this machine are answered."""
    workers: Annotated[int, AtLeast(1)] = 2
    """Threads that read images."""
    answers: str | None = None
    """File of answers (.sqlite) that takes the corrections made on the page; null: the page saves them as such a file."""


@dataclass(frozen=True)
class ReviewOptions(Options):
    """Options of `aevlp review`."""

    host: str = "127.0.0.1"
    """Address to listen at; the default is for this machine alone, and any other needs --token."""
    port: Annotated[int, Between(0, 65535)] = 8000
    """Port to listen at; 0: any free one."""
    token: str | None = None
    """Password that everybody needs to use the page; null: none, on this machine alone."""
    grid: Annotated[int, Between(12, 48)] = 24
    """Images of a grid."""
    audit: Annotated[int, AtLeast(0)] = 100
    """Images to draw for the audit, if none was drawn before; at most a quarter of the training images. 0: no audit."""
    min_precision: Annotated[float, Between(0, 1, excludes_low=True)] = 0.95
    """Precision that the audit must show of the labels that are accepted together."""

    def __post_init__(self) -> None:
        """Check that a password is long enough to be one."""
        super().__post_init__()
        token = self.token
        if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isalnum()):
            raise UserError(f"--token: use at least {SHORTEST_TOKEN} plain letters and digits, so that nobody guesses it")
