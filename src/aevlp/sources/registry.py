"""The registry of sources. A source file registers itself with one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from aevlp.core.summaries import summary_of

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch import Tensor, nn

    from aevlp.config.config import Config
    from aevlp.data.splits import Split


@dataclass(frozen=True)
class SourceOptions:
    """Options of a source, as the user sets them (`--NAME.KEY`); a source with options derives its own dataclass."""


@dataclass(frozen=True)
class Task:
    """What a source is made for."""

    split: Split  # the training images, N of them
    classes: Sequence[str]  # C of them
    config: Config
    root: Path | None  # of the view store
    accelerator: Accelerator
    validation: Split | None = None  # images that a source may judge itself by


@dataclass(frozen=True)
class Moment:
    """Where training stands, and what the classifier makes of the training images as it is then."""

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

    def __init__(self, task: Task, options: Any) -> None:
        self.task, self.options = task, options

    def fill(self) -> None:
        """Does, once, the expensive part that all epochs share."""

    def evidence(self) -> Tensor | None:
        """Int8 [N, C]: pseudo-labels that are known before training; None: there are none."""
        return None

    def chosen(self) -> dict[str, Any]:
        """Options that it has chosen itself, for the record."""
        return {}

    def begin(self, moment: Moment) -> None:
        """Prepares an epoch."""

    def rows(self, index: Tensor, logits: Tensor) -> Tensor:
        """[B, C] for the images `index` [B] of a batch, whose logits [B, C] are constants here."""
        return self.table[index]

    def end(self, moment: Moment) -> None:
        """Learns from an epoch that is over."""

    def parameters(self) -> list[nn.Parameter]:
        """What the optimiser of the classifier trains too, at the rate `learning_rate`."""
        return []

    @property
    def learning_rate(self) -> float:
        """Of its parameters."""
        return self.task.config.train.learning_rate

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from `state`."""


class Remembering(Source):
    """A source whose table is all that it remembers from epoch to epoch."""

    def state(self) -> dict[str, Any]:
        """The table."""
        return {"table": self.table}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues with a copy of the table of `state`."""
        self.table = state["table"].clone()


@dataclass(frozen=True)
class SourceKind:
    """A registered source: what it is called, how it is made, what it yields."""

    name: str
    make: Callable[[Task, Any], Source]
    options: type[SourceOptions]
    yields: str  # what its rows are; a loss that reads the same can be combined with it
    asks_teacher: bool
    wants_expected_positives: bool
    follows_compat: bool  # has another way of its authors' released code
    paper: str

    @property
    def summary(self) -> str:
        """What it is, in a line: the first of its file."""
        return summary_of(self.make)


SOURCES: dict[str, SourceKind] = {}
Make = TypeVar("Make", bound=Callable[[Task, Any], Source])


def register_source(
    name: str,
    options: type[SourceOptions] = SourceOptions,
    *,
    yields: str = "pseudo",
    asks_teacher: bool = False,
    wants_expected_positives: bool = False,
    follows_compat: bool = False,
    paper: str = "",
) -> Callable[[Make], Make]:
    """A decorator that enters a source (its class, or a function that makes it) under `name`."""

    def enter(make: Make) -> Make:
        SOURCES[name] = SourceKind(name, make, options, yields, asks_teacher, wants_expected_positives, follows_compat, paper)
        return make

    return enter
