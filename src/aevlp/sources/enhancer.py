"""Label enhancer: a small network of its own turns the classifier's features and the observed labels into soft labels.

It works on the features that the head sees (the backbone's pooled ones), refreshed once per epoch, and takes one pass over them
per epoch. The published code is for tabular data, whose features never change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.citations import ENHANCEMENT
from aevlp.core.options import AtLeast, Options
from aevlp.core.seeds import generator_for, seed_for
from aevlp.sources.registry import EpochContext, Source, SourceContext, register_source

if TYPE_CHECKING:
    from aevlp.models.label_enhancer import Enhancement


@dataclass(frozen=True)
class EnhancerOptions(Options, section="enhancer"):
    """Options of the label enhancer."""

    neighbours: Annotated[int, AtLeast(0)] = 3
    """Most similar images that each image is linked to in the graph."""
    gamma: Annotated[float, AtLeast(0)] = 1e-3
    """Weight of rebuilding the features, the labels and the graph."""
    delta: Annotated[float, AtLeast(0)] = 1.0
    """Weight of holding the soft labels undecided: at 1 they stay within about 0.44 to 0.56, at 0.01 within 0.09 to 0.91."""
    learning_rate: Annotated[float, AtLeast(0)] = 1e-3
    """Adam's learning rate for the enhancer."""


@register_source("enhancer", EnhancerOptions, yields="soft", paper=ENHANCEMENT)
class Enhancer(Source):
    """Soft labels d: float32 [N, C] in (0, 1), of the observed labels too.

    Everything is computed on the CPU from generators of its own, so that all processes get the same.
    """

    options: EnhancerOptions

    def __init__(self, context: SourceContext, options: Any) -> None:
        super().__init__(context, options)
        self.enhancement: Enhancement | None = None  # the width of the features is not known before the first epoch

    def _made(self, width: int) -> Enhancement:
        from aevlp.models.label_enhancer import Enhancement

        return Enhancement(
            width,
            self.observed.shape[1],
            gamma=self.options.gamma,
            delta=self.options.delta,
            learning_rate=self.options.learning_rate,
            seed=seed_for(self.context.seed, "enhancer"),
        )

    def begin_epoch(self, context: EpochContext) -> None:
        """Train the network for one pass on the current features, and take its soft labels."""
        from aevlp.models.label_enhancer import Graph, standardised

        features = standardised(context.features())
        if self.enhancement is None:
            self.enhancement = self._made(features.shape[1])
        graph = Graph(features, self.options.neighbours, self.context.accelerator.device)
        generator = generator_for(self.context.seed, "enhancer", context.epoch)
        self.table = self.enhancement.learn(features, graph, self.observed, generator)

    def state_dict(self) -> dict[str, Any]:
        """Return the network and its optimizer; nothing before the first epoch."""
        return {} if self.enhancement is None else self.enhancement.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the network and the optimizer of `state`."""
        if state:
            self.enhancement = self._made(state["width"])
            self.enhancement.load_state_dict(state)
