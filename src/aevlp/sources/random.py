"""Random labels: every unknown label is positive by chance, about as often as an image is expected to have more positives."""

from dataclasses import dataclass

from aevlp.core.citations import AEVLP
from aevlp.core.options import Options
from aevlp.core.seeds import generator_for
from aevlp.losses.cells import prior
from aevlp.sources.registry import EpochContext, Source, register_source


@dataclass(frozen=True)
class RandomOptions(Options, section="random"):
    """Options of the random labels."""

    fixed: bool = False
    """Draw the labels once; false: anew for every epoch."""


@register_source("random", RandomOptions, wants_expected_positives=True, paper=AEVLP)
class Random(Source):
    """Pseudo-labels that know nothing of the images."""

    options: RandomOptions

    def begin_epoch(self, context: EpochContext) -> None:
        """Draw the labels of an epoch."""
        import torch

        assert context.expected_positives is not None
        draw = 1 if self.options.fixed else context.epoch
        generator = generator_for(self.context.seed, "random labels", draw)
        shape = self.observed.shape
        drawn = torch.rand(shape, generator=generator) < prior(context.expected_positives, shape[1])
        self.table = (drawn & (self.observed == 0)).to(torch.int8)
