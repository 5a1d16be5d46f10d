"""Where pseudo-labels come from: `none`, or `damp` (a frozen vision-language model that looks at the image and its tiles)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

SOURCES = ("none", "damp")


class Source(Protocol):
    """Pseudo-labels for the training images, epoch by epoch."""

    def fill(self) -> None:
        """Does, once, the expensive part that all epochs share."""
        ...

    def labels(self, epoch: int) -> Tensor:
        """Int8 [N, C] in {1, 0, -1}: the pseudo-labels of epoch 1, 2, ..., the same in every process."""
        ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from `state`."""
        ...
