"""Options of every run: training, thresholds and the run itself; and the list of all options that a method has.

A field `KEY` of section `SECTION` is the option `--SECTION.KEY`. A recipe sets other defaults; what the user says wins over both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from aevlp.config.methods import Method
from aevlp.config.trackers import tracker_names
from aevlp.core.errors import UserError, require
from aevlp.core.options import Above, AtLeast, Between, Option, Options, options_of
from aevlp.core.processes import EngineOptions
from aevlp.data.load import DataOptions
from aevlp.losses import LOSSES
from aevlp.models.heads import HEADS
from aevlp.models.options import ModelOptions, TeacherOptions
from aevlp.sources import SOURCES

LEARNING_RATES = Between(0, 100)
"""Rates at which weights can move; Adam takes steps of about this size, whatever the gradient."""
Aim = Literal["f1", "precision", "count"]


@dataclass(frozen=True)
class TrainOptions(Options, section="train"):
    """Options of the training loop."""

    mode: Literal["full", "linear", "linear-then-full"] = "full"
    """full: train backbone and head; linear: the head alone, on features computed once (then the defaults are 8 epochs,
    batches of 16, head learning rate 1e-3, no early stop); linear-then-full: first the head alone, then both."""
    linear_init: int = 2
    """Epochs of the head alone in mode linear-then-full; the schedules of gr and gpr start after them."""
    epochs: Annotated[int, AtLeast(1)] = 8
    """Number of epochs."""
    batch_size: Annotated[int, AtLeast(1)] = 16
    """Images per step, over all processes together (VOC, CUB 8)."""
    optimizer: Literal["adam", "adamax"] = "adam"
    """Optimizer that takes the steps."""
    learning_rate: Annotated[float, LEARNING_RATES] = 1e-5
    """Learning rate of the backbone."""
    head_learning_rate: Annotated[float, LEARNING_RATES] = 1e-4
    """Learning rate of the head."""
    expected_positives: Annotated[float, Above(0)] | None = None
    """Expected number of positives per image (VOC 1.5; COCO 2.9; NUS 1.9; CUB 31.4). Some losses need it, and thresholds without
    complete validation labels; null: estimated from the data."""
    patience: Annotated[int, AtLeast(1)] | None = 2
    """Stop after this many epochs without a new best validation mAP; null: never."""
    max_drop: Annotated[float, AtLeast(0)] | None = 2.0
    """Stop when validation mAP falls more than this many points under the best; null: never."""
    workers: Annotated[int, AtLeast(1)] = 2
    """Threads that read images ahead."""

    def __post_init__(self) -> None:
        """Check that the warm-up is shorter than the training."""
        super().__post_init__()
        if self.mode == "linear-then-full":
            fits = 1 <= self.linear_init < self.epochs
            require(fits, "train.linear_init", f"at least 1 and below the number of epochs ({self.epochs})", self.linear_init)


@dataclass(frozen=True)
class ThresholdOptions(Options, section="thresholds"):
    """The aim of the thresholds."""

    aim: Aim = "f1"
    """f1: the best F1 on validation images; precision: the most labels at that precision; count: as many labels as there are."""
    precision: Annotated[float, Between(0, 1, excludes_low=True)] = 0.9
    """Precision to reach with the aim precision."""
    shrinkage: Annotated[float, AtLeast(0)] = 10.0
    """Number of examples at which a class's own threshold and the common one weigh the same; 0: no shrinkage."""

    def require_measurable(self, *, is_complete: bool) -> None:
        """Refuse to aim at a precision that cannot be measured, because the labels are not complete."""
        if self.aim == "precision" and not is_complete:
            raise UserError(
                "--thresholds.aim precision: the labels of the validation images are incomplete, so that no precision can be "
                "measured; label 50 or more images completely as the split 'val', or use the aim f1"
            )


@dataclass(frozen=True)
class RunOptions(Options):
    """Options of a run without a section."""

    seed: Annotated[int, AtLeast(0)] = 0
    """Seed of the head's weights, the order of the images, their flips, the text noise and the recombination of draws."""
    compat: Literal["paper", "released-code"] = "paper"
    """Follow the paper, or the departures of its authors' released code."""
    protocol: Literal["common", "published"] = "common"
    """common: the recipe's settings for every method; published: those that each method was published with, where known."""
    store: str | None = None
    """Folder of stored embeddings; none: keep nothing on disk; null: ~/.cache/aevlp/views, or $AEVLP_CACHE/views."""
    report: bool = True
    """Write report.html, a page about the run, at its end."""
    track: str | None = None
    """Experiment trackers, separated by commas: tensorboard, mlflow, wandb or another that accelerate knows; none: no tracker;
    null: tensorboard, if it is installed."""

    def __post_init__(self) -> None:
        """Check the names of the trackers."""
        super().__post_init__()
        tracker_names(self.track)


SECTIONS: dict[str, type] = {"data": DataOptions, "model": ModelOptions, "train": TrainOptions, "thresholds": ThresholdOptions}
TOP = (RunOptions, EngineOptions)
SOMETIMES: dict[str, Callable[[Method], bool]] = {
    "compat": lambda method: method.source.follows_compat,
}
"""Options without a section that only some methods have."""


def options_for(method: Method) -> list[Option]:
    """Return the options of a run with that method: those of every run, and its own."""
    return [option for option in _common_options() if option.key not in SOMETIMES] + own_options(method)


def own_options(method: Method) -> list[Option]:
    """Return the options of a method that not every method has."""
    own = [option for section, kind in method.sections.items() for option in options_of(section, kind)]
    return own + [option for option in _common_options() if option.key in SOMETIMES and SOMETIMES[option.key](method)]


def all_options() -> dict[str, Option]:
    """Return the options of all methods by key; where several losses share a key, the last one's."""
    return {option.key: option for option in every_option()}


def every_option() -> list[Option]:
    """Return the options of all methods; losses that share a key have one each."""
    kinds: list[tuple[str, type[Any]]] = [("teacher", TeacherOptions)]
    kinds += [("loss", loss.options) for loss in LOSSES.values()]
    kinds += [(source.section, source.options) for source in SOURCES.values()]
    kinds += [(head.name, head.options) for head in HEADS.values()]
    own = [option for section, kind in kinds for option in options_of(section, kind)]
    return [*_common_options(), *own]


def _common_options() -> list[Option]:
    top = [option for kind in TOP for option in options_of("", kind)]
    return top + [option for section, kind in SECTIONS.items() for option in options_of(section, kind)]
