"""The registry of heads that take the place of a backbone's own. A head file registers itself with one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from aevlp.core.options import Options
from aevlp.core.registry import Registry, summary_of

if TYPE_CHECKING:
    from torch import nn


OWN_TYPE = "aevlp"
"""The model type of a folder that transformers must not take for a plain one."""


@dataclass(frozen=True)
class HeadKind:
    """A registered head: what it is called, how it is made, what it sees.

    A module that it makes turns pooled features [N, D], or a map of them [N, D, H, W], into logits [N, C]. If it has an attribute
    `penalty`, a scalar that its last forward pass in training has set, that is added to the loss.
    """

    name: str
    make: Callable[[int, int, Any], nn.Module]  # (D, C, options)
    options: type[Options]
    sees_map: bool
    paper: str

    @property
    def summary(self) -> str:
        """The first line of its file."""
        return summary_of(self.make)


HEADS: Registry[HeadKind] = Registry("head")
Make = TypeVar("Make", bound="Callable[[int, int, Any], nn.Module]")


def register_head(
    name: str, options: type[Options] = Options, *, sees_map: bool = False, paper: str = ""
) -> Callable[[Make], Make]:
    """A decorator that enters a function that makes a head under `name`."""

    def enter(make: Make) -> Make:
        HEADS.add(name, HeadKind(name, make, options, sees_map, paper))
        return make

    return enter
