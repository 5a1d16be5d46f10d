"""Online estimates: every training label has a probability of its own, learned along with the classifier."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Annotated, Any

from aevlp.core.citations import SINGLE_POSITIVE
from aevlp.core.options import AtLeast, Options
from aevlp.core.seeds import generator_for
from aevlp.sources.registry import Source, SourceContext, register_source

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class EstimatesOptions(Options, section="estimates"):
    """Options of the online estimates."""

    rate: Annotated[float, AtLeast(0)] = 10.0
    """Learning rate of the estimates, in times the backbone's learning rate."""


def logit(p: float) -> float:
    """Return the z whose sigmoid is p."""
    return log(p / (1 - p))


def first_logits(observed: Tensor, seed: int) -> Tensor:
    """Return the first logits, float32 [N, C]: near-certain where observed, elsewhere of a probability drawn from 0.4 to 0.6."""
    import torch

    drawn = torch.rand(observed.shape, generator=generator_for(seed, "estimates"))
    return ((2 * drawn - 1) * logit(0.6)).masked_fill(observed == 1, logit(0.995)).masked_fill(observed == -1, logit(0.005))


@register_source("estimates", EstimatesOptions, yields="estimated", paper=SINGLE_POSITIVE)
class Estimates(Source):
    """A matrix Theta [N, C] of free logits, which the classifier's optimizer trains; it has no table."""

    options: EstimatesOptions

    def __init__(self, context: SourceContext, options: Any) -> None:
        import torch

        super().__init__(context, options)
        first = first_logits(self.observed, context.seed)
        self.theta = torch.nn.Parameter(first.to(context.accelerator.device))

    def rows(self, index: Tensor, logits: Tensor) -> Tensor:
        """Return the estimates, float32 [B, C] in (0, 1), on Theta's device; gradients flow to Theta."""
        t = self.theta[index.to(self.theta.device)].sigmoid()
        # The loss is scaled up by the number of processes, as their gradients are averaged; Theta's are not.
        shared: Tensor = t.detach() + (t - t.detach()) / self.context.accelerator.num_processes
        return shared

    def parameters(self) -> list[nn.Parameter]:
        """Return Theta."""
        return [self.theta]

    @property
    def learning_rate(self) -> float:
        """`rate` times the learning rate of the backbone."""
        return self.options.rate * self.context.learning_rate

    def state_dict(self) -> dict[str, Any]:
        """Return Theta."""
        return {"theta": self.theta.detach().cpu()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the Theta of `state`, in place: the optimizer holds it."""
        self.theta.data.copy_(state["theta"])
