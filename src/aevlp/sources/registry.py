"""The registry of sources. A source file registers itself with one line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from aevlp.core.options import Options
from aevlp.core.registry import Registry, summary_of

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch import Tensor, nn

    from aevlp.damp.teacher_check import TeacherCheck
    from aevlp.damp.view_embeddings import ViewEmbeddings
    from aevlp.data.dataset import Split
    from aevlp.models.options import TeacherOptions

log = logging.getLogger("aevlp")


@dataclass(frozen=True)
class SourceContext:
    """The data, the models and the run that a source serves."""

    split: Split  # the training images, N of them
    classes: Sequence[str]  # C of them
    accelerator: Accelerator
    store_root: Path | None  # folder of the stores; None: keep nothing on disk
    validation: Split | None  # images that a source may evaluate itself on
    teacher: TeacherOptions
    seed: int
    epochs: int  # 0: nothing is trained
    learning_rate: float  # of the backbone
    expected_positives: float | None  # per image, as the user set it
    released_code: bool  # follow the authors' released code where it departs from the paper

    @property
    def observed(self) -> Tensor:
        """The observed labels of the training images, int8 [N, C] on the CPU."""
        import torch

        return torch.from_numpy(self.split.observed)


@dataclass(frozen=True)
class EpochContext:
    """The epoch, and what the classifier computes for the training images at its current weights."""

    epoch: int  # 1..epochs
    epochs: int
    expected_positives: float | None  # per image; None: neither loss nor source asked for it
    probabilities: Callable[[], Tensor]  # float32 [N, C] on the CPU, the same in every process; a pass over the images
    features: Callable[[], Tensor]  # float32 [N, D], what the head sees, likewise


class Source:
    """A source of labels that a loss reads beside the observed ones, epoch by epoch.

    This one has none; the others override what they need. All processes call the same methods in the same order and keep the
    same tables.
    """

    views: ViewEmbeddings | None = None  # the teacher's, of a source that asks one
    table: Tensor  # [N, C] on the CPU: the labels of this epoch; int8 in {1, 0, -1} for pseudo-labels

    def __init__(self, context: SourceContext, options: Any) -> None:
        self.context, self.options = context, options
        self.teacher_check: TeacherCheck | None = None  # None: not done, or nothing to check by
        self.observed = context.observed

    def fill(self) -> None:
        """Compute, once, the expensive part that all epochs share."""

    def check_teacher(self) -> None:
        """Let the teacher score a few hundred images first, and log how well it knows the classes; it does so once."""
        from aevlp.damp.teacher_check import check_teacher, checked_rows

        rows = checked_rows(self.context.split.observed)
        if self.teacher_check is not None:
            return
        if not len(rows):
            log.info("teacher check: left out, because no label is observed")
            return
        part = self.context.split.part(rows)
        found = self.scores(part, draws=1)
        if found is not None:
            self.teacher_check = check_teacher(found.numpy(), part.observed, self.context.classes)
            log.info("teacher check: %s", self.teacher_check)
            for warning in self.teacher_check.warnings():
                log.warning("WARNING: %s", warning)

    def evidence(self) -> Tensor | None:
        """Return the pseudo-labels that are known before training, int8 [N, C]; None: there are none."""
        return None

    def scores(self, split: Split, draws: int | None = None) -> Tensor | None:
        """Return the teacher's scores of the images of a split, float32 [M, C]; None: the source asks no teacher.

        They are averaged over that many draws of views (None: all), and use no observed label.
        """
        return None

    def chosen(self) -> dict[str, Any]:
        """Return option name -> value for the options that the source has chosen itself."""
        return {}

    def begin_epoch(self, context: EpochContext) -> None:
        """Prepare the table of an epoch."""

    def rows(self, index: Tensor, logits: Tensor) -> Tensor:
        """Return the labels [B, C] of the images `index` [B] of a batch; their logits [B, C] carry no gradient."""
        return self.table[index]

    def pseudo_labels(self) -> Tensor:
        """Return the labels of this epoch, int8 [N, C]: 1 where an unknown label counts as positive."""
        return self.table

    def end_epoch(self, context: EpochContext) -> None:
        """Update from an epoch that has ended."""

    def parameters(self) -> list[nn.Parameter]:
        """Return parameters that the classifier's optimizer trains too, at `learning_rate`."""
        return []

    @property
    def learning_rate(self) -> float:
        """Learning rate of the source's parameters."""
        return self.context.learning_rate

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""


class StatefulSource(Source):
    """A source whose whole state is its table."""

    def state_dict(self) -> dict[str, Any]:
        """Return the table."""
        return {"table": self.table}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with a copy of the table of `state`."""
        self.table = state["table"].clone()


@dataclass(frozen=True)
class SourceKind:
    """A registered source: its name, its constructor and its properties."""

    name: str
    make: Callable[[SourceContext, Any], Source]
    options: type[Options]
    yields: str  # the kind of its labels; a loss that reads this kind can be combined with it
    asks_teacher: bool
    wants_expected_positives: bool
    follows_compat: bool  # whether --compat released-code changes it
    paper: str

    @property
    def summary(self) -> str:
        """The first line of its file."""
        return summary_of(self.make)

    @property
    def section(self) -> str:
        """The section of its options: `damp` for every source that asks a teacher about views."""
        return self.options.section or self.name

    @property
    def has_pseudo_labels(self) -> bool:
        """True if some of its labels can be called positive, and so be right or wrong."""
        return self.name != "none" and (self.yields == "pseudo" or self.has_view_scores)

    @property
    def has_view_scores(self) -> bool:
        """True if its teacher scores an image and its tiles, as DAMP's does."""
        return self.section == "damp"


SOURCES: Registry[SourceKind] = Registry("source")
Make = TypeVar("Make", bound=Callable[[SourceContext, Any], Source])


def register_source(
    name: str,
    options: type[Options] = Options,
    *,
    yields: str = "pseudo",
    asks_teacher: bool = False,
    wants_expected_positives: bool = False,
    follows_compat: bool = False,
    paper: str = "",
) -> Callable[[Make], Make]:
    """Return a decorator that registers a source, its class or a function that makes it, under `name`."""

    def enter(make: Make) -> Make:
        kind = SourceKind(name, make, options, yields, asks_teacher, wants_expected_positives, follows_compat, paper)
        SOURCES.add(name, kind)
        return make

    return enter
