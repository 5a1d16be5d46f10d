"""The registry of sources. A source file registers itself with one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from aevlp.core.options import Options
from aevlp.core.registry import Registry, summary_of

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch import Tensor, nn

    from aevlp.data.splits import Split
    from aevlp.models.options import TeacherOptions


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
    epochs: int
    learning_rate: float  # of the backbone
    expected_positives: float | None  # per image, as the user set it
    released_code: bool  # follow the authors' released code where it departs from the paper


@dataclass(frozen=True)
class EpochContext:
    """The epoch, and what the classifier computes for the training images at its current weights."""

    epoch: int  # 1..epochs
    epochs: int
    expected_positives: float | None  # per image; None: neither loss nor source asked for it
    probabilities: Callable[[], Tensor]  # float32 [N, C] on the CPU, the same in every process; a pass over the images
    features: Callable[[], Tensor]  # float32 [N, D], what the head sees, likewise


class Source:
    """What a loss is told of the training images' labels beside the observed ones, epoch by epoch.

    This one says nothing; the others override what they need. All processes call the same methods in the same order, and
    keep the same tables.
    """

    table: Tensor  # [N, C] on the CPU: what this epoch's batches are told; int8 in {1, 0, -1} for pseudo-labels

    def __init__(self, context: SourceContext, options: Any) -> None:
        self.context, self.options = context, options

    def fill(self) -> None:
        """Does, once, the expensive part that all epochs share."""

    def evidence(self) -> Tensor | None:
        """Int8 [N, C]: pseudo-labels that are known before training; None: there are none."""
        return None

    def chosen(self) -> dict[str, Any]:
        """Options that it has chosen itself, for the record."""
        return {}

    def begin_epoch(self, context: EpochContext) -> None:
        """Prepare the table of an epoch."""

    def rows(self, index: Tensor, logits: Tensor) -> Tensor:
        """[B, C] for the images `index` [B] of a batch, whose logits [B, C] are constants here."""
        return self.table[index]

    def end_epoch(self, context: EpochContext) -> None:
        """Update from an epoch that has ended."""

    def parameters(self) -> list[nn.Parameter]:
        """What the optimiser of the classifier trains too, at the rate `learning_rate`."""
        return []

    @property
    def learning_rate(self) -> float:
        """Of its parameters."""
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
    """A registered source: what it is called, how it is made, what it yields."""

    name: str
    make: Callable[[SourceContext, Any], Source]
    options: type[Options]
    yields: str  # what its rows are; a loss that reads the same can be combined with it
    asks_teacher: bool
    wants_expected_positives: bool
    follows_compat: bool  # has another way of its authors' released code
    paper: str

    @property
    def summary(self) -> str:
        """The first line of its file."""
        return summary_of(self.make)


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
    """A decorator that enters a source (its class, or a function that makes it) under `name`."""

    def enter(make: Make) -> Make:
        kind = SourceKind(name, make, options, yields, asks_teacher, wants_expected_positives, follows_compat, paper)
        SOURCES.add(name, kind)
        return make

    return enter
