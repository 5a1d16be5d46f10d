"""The registry of losses. A loss file registers itself with one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

Function = TypeVar("Function", bound="Callable[..., Tensor]")


@dataclass(frozen=True)
class LossOptions:
    """Options of a loss, as the user sets them (`--loss.KEY`); a loss with options derives its own dataclass."""

    def at(self, epoch: int, epochs: int) -> dict[str, Any]:
        """Keyword arguments of the loss function in epoch 1..epochs: the options as they are, unless a schedule moves them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Loss:
    """A registered loss: what it is called, what it computes, what it takes."""

    name: str
    function: Callable[..., Tensor]
    options: type[LossOptions]
    reads_pseudo: bool  # called as (logits, observed, pseudo, **options) instead of (logits, observed, **options)
    needs_truth: bool  # `observed` must be complete: only the upper reference asks for that


LOSSES: dict[str, Loss] = {}


def register_loss(
    name: str, options: type[LossOptions] = LossOptions, *, reads_pseudo: bool = False, needs_truth: bool = False
) -> Callable[[Function], Function]:
    """A decorator that enters a loss function under `name`."""

    def enter(function: Function) -> Function:
        LOSSES[name] = Loss(name, function, options, reads_pseudo, needs_truth)
        return function

    return enter
