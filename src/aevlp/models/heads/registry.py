"""The registry of heads that replace a backbone's own. A head file registers itself with one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from aevlp.core.options import Options
from aevlp.core.registry import Registry, summary_of

if TYPE_CHECKING:
    from torch import nn


AEVLP_MODEL_TYPE = "aevlp"
"""The model type in config.json of a folder that transformers must refuse."""


@dataclass(frozen=True)
class HeadKind:
    """A registered head: its name, its factory, its options and its input.

    Its modules turn pooled features [N, D], or with `sees_map` a map of them [N, D, H, W], into logits [N, C]. If a module has an
    attribute `penalty`, a scalar that its last forward pass in training has set, the loop adds it to the loss.
    """

    name: str
    make: Callable[[int, int, Any], nn.Module]  # (D, C, options)
    options: type[Options]
    sees_map: bool
    paper: str

    @property
    def summary(self) -> str:
        """The first line of the head's file."""
        return summary_of(self.make)


HEADS: Registry[HeadKind] = Registry("head")
Make = TypeVar("Make", bound="Callable[[int, int, Any], nn.Module]")


def register_head(
    name: str, options: type[Options] = Options, *, sees_map: bool = False, paper: str = ""
) -> Callable[[Make], Make]:
    """Return a decorator that registers a factory of heads under `name`."""

    def enter(make: Make) -> Make:
        HEADS.add(name, HeadKind(name, make, options, sees_map, paper))
        return make

    return enter
