"""The registry of losses. A loss file registers itself with one line, and is a method of its own from then on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from aevlp.core.options import Options
from aevlp.core.registry import Registry, summary_of

if TYPE_CHECKING:
    from torch import Tensor

Function = TypeVar("Function", bound="Callable[..., Tensor]")


@dataclass(frozen=True)
class LossOptions(Options, section="loss"):
    """Options of a loss, as the user sets them (`--loss.KEY`); a loss with options derives its own dataclass."""

    def at(self, epoch: int, epochs: int, cells: int, warmup: int = 0) -> dict[str, Any]:
        """Keyword arguments of the loss function for a batch of `cells` = N * C labels in epoch 1..epochs.

        They are the options as they are, unless a schedule moves them; those of gr and gpr begin after `warmup` epochs.
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Loss:
    """A registered loss: its name, its function and its properties."""

    name: str
    function: Callable[..., Tensor]
    options: type[LossOptions]
    reads: str | None  # the kind of labels in its third argument: "pseudo" or another that a source yields; None: it has none
    needs_truth: bool  # it takes complete labels; only the upper reference does
    paper: str

    @property
    def summary(self) -> str:
        """The first line of its file."""
        return summary_of(self.function)

    @property
    def wants_expected_positives(self) -> bool:
        """True if it takes the expected number of positives per image."""
        return "expected_positives" in inspect.signature(self.function).parameters


LOSSES: Registry[Loss] = Registry("loss")


def register_loss(
    name: str,
    options: type[LossOptions] = LossOptions,
    *,
    reads: str | None = None,
    needs_truth: bool = False,
    paper: str = "",
) -> Callable[[Function], Function]:
    """Return a decorator that registers a loss function under `name`.

    It is called as function(logits, observed, **options), or (logits, observed, what it reads, **options); a keyword
    `expected_positives` is filled in with the number that is set or estimated.
    """

    def enter(function: Function) -> Function:
        LOSSES.add(name, Loss(name, function, options, reads, needs_truth, paper))
        return function

    return enter
