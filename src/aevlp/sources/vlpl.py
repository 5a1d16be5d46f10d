"""VLPL: a frozen vision-language model looks once at the whole image; the classes it is sure of become positive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aevlp.core.citations import VISION_LANGUAGE
from aevlp.core.errors import require
from aevlp.sources.registry import Source, SourceOptions, Task, register_source

if TYPE_CHECKING:
    from torch import Tensor

WHOLE_IMAGE = {"grid": 0, "overlap": 0.0, "augment": False, "seed": 0}


@dataclass(frozen=True)
class VlplOptions(SourceOptions):
    """Vision-language pseudo-labels."""

    temperature: float = 0.01
    """Softmax temperature on the cosines."""
    threshold: float = 0.3
    """Score above which a class becomes a positive pseudo-label."""

    def __post_init__(self) -> None:
        """Checks the ranges."""
        require(self.temperature > 0, "vlpl.temperature", "above 0", self.temperature)
        require(self.threshold >= 0, "vlpl.threshold", "at least 0", self.threshold)


@register_source("vlpl", VlplOptions, asks_teacher=True, paper=VISION_LANGUAGE)
class Vlpl(Source):
    """The same pseudo-labels in every epoch: 1 where the softmax over the cosines is above the threshold."""

    options: VlplOptions

    def __init__(self, task: Task, options: Any) -> None:
        from aevlp.damp.view_embeddings import Looks

        super().__init__(task, options)
        self.looks = Looks(task, 1, WHOLE_IMAGE)

    def fill(self) -> None:
        """Scores what the store lacks, and labels every image."""
        import torch
        from torch.nn.functional import normalize

        from aevlp.damp.labels import scores

        self.looks.fill()
        classes = normalize(self.looks.texts, dim=1).to(self.task.accelerator.device)

        def label(rows: Tensor, embeddings: Tensor) -> Tensor:
            whole, _ = scores(embeddings, classes, self.options.temperature)
            return (whole > self.options.threshold).to(torch.int8)

        unknown = torch.from_numpy(self.task.split.observed == 0)
        self.table = self.looks.labelled(1, label) * unknown

    def evidence(self) -> Tensor:
        """The labels."""
        return self.table

    def state(self) -> dict[str, Any]:
        """How the teacher looked."""
        return self.looks.state()

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on if the teacher would see the same."""
        self.looks.check(state)
