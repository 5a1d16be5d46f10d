"""Every option of a run, as frozen dataclasses. A field `KEY` of section `SECTION` is the option `--SECTION.KEY`.

A recipe (`aevlp.recipes`) is a set of other defaults for these fields; what the user says wins over both.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from aevlp.errors import require
from aevlp.losses.registry import LossOptions


@dataclass(frozen=True)
class DataOptions:
    """How the image set is read."""

    format: str | None = None
    """Kind of image set (folder, table, flat); null: detected."""
    observe: Literal["given", "single"] = "given"
    """given: train on the labels as they are; single: keep one positive per training image of a fully labelled set."""
    zeros: Literal["unknown", "negative"] = "unknown"
    """What a label that is not given means in the training split; everywhere else it means negative."""
    bad_images: Literal["stop", "skip"] = "stop"
    """What to do about images that cannot be read: stop before training, or leave them out and say so."""


@dataclass(frozen=True)
class TeacherOptions:
    """The frozen vision-language model that makes the pseudo-labels."""

    name: str = "openai/clip-vit-base-patch16"
    """Hub name or folder of a CLIP-like checkpoint, package.module:factory, or demo."""
    prompt: str = "a photo of a {}."
    """Text that stands for a class; {} is the class name."""
    batch_size: int | None = None
    """Views per forward pass; null: 256, or 40 on a CPU, where each core has a batch of its own."""
    precision: Literal["auto", "fp32", "bf16", "fp16", "int8"] = "auto"
    """Arithmetic of the teacher; auto: fp16 on a GPU, else fp32; int8: linear layers in 8 bits, on a CPU only."""

    def __post_init__(self) -> None:
        """Checks the prompt's slot and the batch size."""
        require(self.prompt.count("{}") == 1, "teacher.prompt", "a text with one {} for the class name", repr(self.prompt))
        require(self.batch_size is None or self.batch_size >= 1, "teacher.batch_size", "at least 1", self.batch_size)


@dataclass(frozen=True)
class DampOptions:
    """Dynamic augmented multi-focus pseudo-labelling."""

    grid: int = 4
    """The image is cut into grid x grid tiles (CUB 5)."""
    overlap: float = 0.2
    """Each side of a tile grows by up to this share of the tile; 0: no overlap."""
    augment: bool = True
    """Flip views, and now and then rotate, jitter, sharpen or contrast them; false: resize only."""
    noise: bool = True
    """Add label-to-label noise to the text embeddings."""
    neighbours: int | None = None
    """Most similar classes that each class takes noise from, itself included (VOC 20, COCO 62, NUS 50, CUB 312); null: all."""
    temperature: float = 0.01
    """Softmax temperature on the cosines (CUB 0.1)."""
    local_threshold: float = 0.0
    """Score above which a class's best tile counts, and below which its worst does (COCO, NUS 0.3; CUB 0.005)."""
    global_threshold: float = 0.5
    """Least score of a positive pseudo-label (NUS 0.6; CUB 0.005)."""
    top_k: int = 3
    """Most positive pseudo-labels per image (CUB 32)."""
    negative_fraction: float = 0.2
    """Share of the classes, those with the lowest scores, that become negative pseudo-labels (COCO 0.3)."""
    seed: int = 0
    """Seed of the views. Runs that share it share the store, whatever their own seed."""
    draws: int | None = None
    """Draws of views to make; later epochs recombine them tile by tile. null: one per epoch."""

    def __post_init__(self) -> None:
        """Checks the ranges."""
        require(self.grid >= 1, "damp.grid", "at least 1", self.grid)
        require(self.overlap >= 0, "damp.overlap", "at least 0", self.overlap)
        require(self.neighbours is None or self.neighbours >= 1, "damp.neighbours", "at least 1", self.neighbours)
        require(self.temperature > 0, "damp.temperature", "above 0", self.temperature)
        require(self.local_threshold >= 0, "damp.local_threshold", "at least 0", self.local_threshold)
        require(self.global_threshold >= 0, "damp.global_threshold", "at least 0", self.global_threshold)
        require(self.top_k >= 0, "damp.top_k", "at least 0", self.top_k)
        require(0 <= self.negative_fraction <= 1, "damp.negative_fraction", "from 0 to 1", self.negative_fraction)
        require(self.seed >= 0, "damp.seed", "at least 0", self.seed)
        require(self.draws is None or self.draws >= 1, "damp.draws", "at least 1", self.draws)


@dataclass(frozen=True)
class ModelOptions:
    """The classifier."""

    backbone: str = "microsoft/resnet-50"
    """Hub name or folder of an image-classification checkpoint, or demo."""
    image_size: int = 448
    """Images are resized to this many pixels in width and height."""

    def __post_init__(self) -> None:
        """Checks the image size."""
        require(self.image_size >= 8, "model.image_size", "at least 8", self.image_size)


@dataclass(frozen=True)
class TrainOptions:
    """The training loop."""

    epochs: int = 8
    """Epochs; the schedules of the losses stretch over them."""
    batch_size: int = 16
    """Images per step, over all processes together (VOC, CUB 8)."""
    learning_rate: float = 1e-5
    """Adam's learning rate for the backbone."""
    head_learning_rate: float = 1e-4
    """Adam's learning rate for the head."""
    patience: int = 2
    """Stop after this many epochs without a new best validation mAP."""
    max_drop: float = 2.0
    """Stop when validation mAP falls more than this many points under the best."""
    workers: int = 2
    """Threads that read images ahead."""

    def __post_init__(self) -> None:
        """Checks the ranges."""
        require(self.epochs >= 1, "train.epochs", "at least 1", self.epochs)
        require(self.batch_size >= 1, "train.batch_size", "at least 1", self.batch_size)
        require(self.learning_rate >= 0, "train.learning_rate", "at least 0", self.learning_rate)
        require(self.head_learning_rate >= 0, "train.head_learning_rate", "at least 0", self.head_learning_rate)
        require(self.max_drop >= 0, "train.max_drop", "at least 0", self.max_drop)
        require(self.patience >= 1, "train.patience", "at least 1", self.patience)
        require(self.workers >= 1, "train.workers", "at least 1", self.workers)


@dataclass(frozen=True)
class EngineOptions:
    """What computes, and in what precision; options without a section."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device to compute on; auto: the fastest there is."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Arithmetic of the classifier's forward passes; losses are computed in fp32 always."""


@dataclass(frozen=True)
class RunOptions:
    """Options of a run without a section."""

    seed: int = 0
    """Seed of the head, the order of the images, their flips, the text noise and the recombination of draws."""
    compat: Literal["paper", "released-code"] = "paper"
    """Follow the paper, or the departures of its authors' released code."""
    store: str | None = None
    """Folder of the view store (also: AEVLP_CACHE); none: keep nothing on disk. null: ~/.cache/aevlp/views."""

    def __post_init__(self) -> None:
        """Checks the seed."""
        require(self.seed >= 0, "seed", "at least 0", self.seed)


@dataclass(frozen=True)
class Config:
    """All options of a training run."""

    recipe: str = "default"
    method: str = "aevlp"
    run: RunOptions = field(default_factory=RunOptions)
    engine: EngineOptions = field(default_factory=EngineOptions)
    data: DataOptions = field(default_factory=DataOptions)
    teacher: TeacherOptions = field(default_factory=TeacherOptions)
    damp: DampOptions = field(default_factory=DampOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TrainOptions = field(default_factory=TrainOptions)
    loss: LossOptions = field(default_factory=LossOptions)

    @property
    def draws(self) -> int:
        """Draws of views to make: never more than there are epochs."""
        return min(self.damp.draws or self.train.epochs, self.train.epochs)

    def as_recipe(self) -> dict[str, Any]:
        """The options as the nested mapping that a recipe file holds: `run` and `engine` have no section there."""
        values = asdict(self)
        return {
            "recipe": values.pop("recipe"),
            "method": values.pop("method"),
            **values.pop("run"),
            **values.pop("engine"),
            **values,
        }
