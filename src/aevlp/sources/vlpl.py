"""VLPL: a frozen vision-language model looks once at the whole image; the classes it is sure of become positive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.citations import VISION_LANGUAGE
from aevlp.core.options import AtLeast, Options
from aevlp.sources.registry import Source, SourceContext, register_source

if TYPE_CHECKING:
    from torch import Tensor

    from aevlp.damp.view_embeddings import ViewEmbeddings
    from aevlp.data.dataset import Split

WHOLE_IMAGE = {"grid": 0, "overlap": 0.0, "augment": False, "seed": 0}


@dataclass(frozen=True)
class VlplSourceOptions(Options, section="vlpl"):
    """Options of vision-language pseudo-labels."""

    temperature: Annotated[float, AtLeast(1e-6)] = 0.01
    """Softmax temperature on the cosines."""
    threshold: Annotated[float, AtLeast(0)] = 0.3
    """Score above which a class becomes a positive pseudo-label."""


@register_source("vlpl", VlplSourceOptions, asks_teacher=True, paper=VISION_LANGUAGE)
class Vlpl(Source):
    """The same pseudo-labels in every epoch: 1 where the softmax over the cosines is above the threshold."""

    options: VlplSourceOptions
    views: ViewEmbeddings

    def __init__(self, context: SourceContext, options: Any) -> None:
        from aevlp.damp.view_embeddings import ViewEmbeddings

        super().__init__(context, options)
        self.views = ViewEmbeddings(
            context.split,
            context.classes,
            context.teacher,
            draws=1,
            view=WHOLE_IMAGE,
            store_root=context.store_root,
            seed=context.seed,
            accelerator=context.accelerator,
        )

    def fill(self) -> None:
        """Check the teacher, embed the images that the store lacks, and label every image."""
        self.check_teacher()
        found = self.scores(self.context.split) > self.options.threshold
        self.table = found.to(self.observed.dtype) * (self.observed == 0)

    def scores(self, split: Split, draws: int | None = None) -> Tensor:
        """Return the softmax over the cosines of the whole images of a split, float32 [M, C]."""
        from torch.nn.functional import normalize

        from aevlp.damp.labels import scores

        views = self.views.at(split)
        views.fill()
        classes = normalize(self.views.texts, dim=1).to(self.context.accelerator.device)
        return views.mean_scores(lambda rows, embeddings: scores(embeddings, classes, self.options.temperature)[0])

    def evidence(self) -> Tensor:
        """Return the labels."""
        return self.table

    def state_dict(self) -> dict[str, Any]:
        """Return the settings of the teacher."""
        return self.views.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Refuse to continue if the teacher or its settings have changed."""
        self.views.check(state)
