"""Every option of a run, as frozen dataclasses. A field `KEY` of section `SECTION` is the option `--SECTION.KEY`.

A recipe (`aevlp.recipes`) is a set of other defaults for these fields; what the user says wins over both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from aevlp.config.methods import Method
from aevlp.core.errors import UserError, require
from aevlp.core.options import Above, AtLeast, Between, Options
from aevlp.core.processes import EngineOptions
from aevlp.data.load import DataOptions
from aevlp.data.splits import Split
from aevlp.losses.registry import LossOptions
from aevlp.models.options import ModelOptions, TeacherOptions
from aevlp.sources import SourceContext

if TYPE_CHECKING:
    from accelerate import Accelerator

Aim = Literal["f1", "precision", "count"]


@dataclass(frozen=True)
class TrainOptions(Options, section="train"):
    """The training loop."""

    mode: Literal["full", "linear", "linear-then-full"] = "full"
    """full: backbone and head; linear: the head alone, on features that are computed once (usual then: 25 epochs, batches of 16,
    head rate 1e-3, no early stop); linear-then-full: first the head alone, then both."""
    linear_init: int = 2
    """Epochs of the head alone in the mode linear-then-full; the schedules of gr and gpr begin after them."""
    epochs: Annotated[int, AtLeast(1)] = 8
    """Epochs; the schedules of the losses stretch over them."""
    batch_size: Annotated[int, AtLeast(1)] = 16
    """Images per step, over all processes together (VOC, CUB 8)."""
    optimizer: Literal["adam", "adamax"] = "adam"
    """What takes the steps."""
    learning_rate: Annotated[float, AtLeast(0)] = 1e-5
    """Learning rate of the backbone."""
    head_learning_rate: Annotated[float, AtLeast(0)] = 1e-4
    """Learning rate of the head."""
    expected_positives: Annotated[float, Above(0)] | None = None
    """Positives an image is expected to have (VOC 1.5; COCO 2.9; NUS 1.9; CUB 31.4), for some losses, and for thresholds without
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
    """What the thresholds are chosen for."""

    aim: Aim = "f1"
    """f1: the best F1 on validation images; precision: as many labels as a precision allows; count: as many as there are."""
    precision: Annotated[float, Between(0, 1, excludes_low=True)] = 0.9
    """The precision wanted with the aim precision."""
    shrinkage: Annotated[float, AtLeast(0)] = 10.0
    """Examples with which a class's own threshold weighs as much as the one for all classes; 0: no shrinking."""


@dataclass(frozen=True)
class RunOptions(Options):
    """Options of a run without a section."""

    seed: Annotated[int, AtLeast(0)] = 0
    """Seed of the head, the order of the images, their flips, the text noise and the recombination of draws."""
    compat: Literal["paper", "released-code"] = "paper"
    """Follow the paper, or the departures of its authors' released code."""
    protocol: Literal["common", "published"] = "common"
    """Train every method with the recipe's settings, or each with those that it was published with, where the recipe has them."""
    store: str | None = None
    """Folder of the view store (also: AEVLP_CACHE); none: keep nothing on disk. null: ~/.cache/aevlp/views."""
    report: bool = True
    """Write a page about the run, report.html, at its end."""


@dataclass(frozen=True)
class Config:
    """All options of a training run."""

    recipe: str
    method: Method
    run: RunOptions
    engine: EngineOptions
    data: DataOptions
    teacher: TeacherOptions  # its defaults, where the method asks no teacher
    model: ModelOptions
    train: TrainOptions
    thresholds: ThresholdOptions
    loss: LossOptions
    source: Options
    head: Options | None  # None: the backbone's own head

    def __post_init__(self) -> None:
        """Refuses what cannot be trained together."""
        if self.train.mode != "full" and self.method.head is not None and self.method.head.sees_map:
            raise UserError(
                f"--train.mode {self.train.mode}: the head {self.method.head.name} needs a feature map, and this mode keeps only "
                f"pooled features; use {'another method' if self.model.features else '--train.mode full'}"
            )
        if self.model.features is not None and self.train.mode != "linear":
            raise UserError(
                f"--features {self.model.features}: features alone have no backbone to train, as --train.mode {self.train.mode} "
                "would; leave the mode out, or say --features null"
            )

    @property
    def warmup(self) -> int:
        """Epochs of the head alone before the backbone is trained too."""
        return self.train.linear_init if self.train.mode == "linear-then-full" else 0

    def source_context(
        self,
        split: Split,
        classes: Sequence[str],
        store_root: Path | None,
        accelerator: Accelerator,
        validation: Split | None = None,
    ) -> SourceContext:
        """Return what the label source of this run may know."""
        return SourceContext(
            split,
            classes,
            accelerator,
            store_root,
            validation,
            self.teacher,
            self.run.seed,
            self.train.epochs,
            self.train.learning_rate,
            self.train.expected_positives,
            released_code=self.run.compat == "released-code",
        )

    def as_recipe(self) -> dict[str, Any]:
        """The options as the nested mapping that a recipe file holds: those that the method has."""
        sections = {
            "data": self.data,
            "model": self.model,
            "train": self.train,
            "thresholds": self.thresholds,
            **self._own_sections(),
        }
        return {
            "recipe": self.recipe,
            "method": self.method.name,
            **asdict(self.run),
            **asdict(self.engine),
            **{name: asdict(options) for name, options in sections.items()},
        }

    def _own_sections(self) -> dict[str, Any]:
        own: dict[str, Any] = {"teacher": self.teacher, "loss": self.loss, self.method.source.name: self.source}
        if self.method.head is not None:
            own[self.method.head.name] = self.head
        return {name: own[name] for name in self.method.sections}
