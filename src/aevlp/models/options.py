"""Options of the teacher and of the classifier."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from aevlp.core.errors import UserError, require
from aevlp.core.options import AtLeast, Options
from aevlp.models.image_settings import IMAGE_SIZES
from aevlp.models.prompts import settled_table


@dataclass(frozen=True)
class TeacherOptions(Options, section="teacher"):
    """The frozen vision-language model that makes the pseudo-labels."""

    name: str = "openai/clip-vit-base-patch16"
    """Hub name or folder of a CLIP-like checkpoint, package.module:factory, or demo."""
    prompt: str = "a photo of a {}."
    """Prompt of a class when there is no prompt table; {} is the class name."""
    prompts: str | None = None
    """Prompt table (voc, coco, nus, cub, or a YAML file of class: prompt); none: the class names in teacher.prompt."""
    batch_size: Annotated[int, AtLeast(1)] | None = None
    """Views per forward pass; null: 256, or 40 on a CPU, where each core computes its own batch."""
    precision: Literal["auto", "fp32", "bf16", "fp16", "int8"] = "auto"
    """Arithmetic of the teacher; auto: fp16 on a GPU, else fp32; int8: linear layers in 8 bits, on a CPU only."""

    def __post_init__(self) -> None:
        """Check the prompt and settle the prompt table."""
        super().__post_init__()
        require(self.prompt.count("{}") == 1, "teacher.prompt", "a text with one {} for the class name", repr(self.prompt))
        if self.prompts is not None:
            # A run records the absolute path, so that the file is found from another folder too.
            object.__setattr__(self, "prompts", settled_table(self.prompts))


@dataclass(frozen=True)
class ModelOptions(Options, section="model"):
    """The classifier."""

    backbone: str = "microsoft/resnet-50"
    """Hub name or folder of an image-classification checkpoint, demo, or demo-clip (with image_size 48)."""
    image_size: Annotated[int, IMAGE_SIZES] = 448
    """Images are resized to this many pixels in width and height."""
    features: str | None = None
    """A .npz with `features` [N, D] and `images` [N] (their names), instead of a backbone; implies linear mode."""

    def __post_init__(self) -> None:
        """Make the path of the features absolute."""
        super().__post_init__()
        if self.features is not None:  # a run records it so, and it is found from another folder too
            object.__setattr__(self, "features", str(Path(self.features).expanduser().absolute()))

    def require_features(self) -> None:
        """Refuse features that are not there."""
        if self.features is not None and not Path(self.features).is_file():
            raise UserError(f"--features {self.features}: no such file; check the path")
