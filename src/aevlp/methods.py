"""The registry of methods: a method is a name for a loss and a source of pseudo-labels."""

from __future__ import annotations

from dataclasses import dataclass

from aevlp.errors import UserError
from aevlp.losses import LOSSES, Loss
from aevlp.nearest import did_you_mean
from aevlp.sources import SOURCES


@dataclass(frozen=True)
class Method:
    """A named pair of loss and label source."""

    name: str
    loss: Loss
    source: str
    summary: str


def _register(name: str, loss: str, source: str, summary: str) -> tuple[str, Method]:
    return name, Method(name, LOSSES[loss], source, summary)


METHODS: dict[str, Method] = dict(
    [
        _register("aevlp", "gpr", "damp", "GPR loss on pseudo-labels of DAMP: the method of the paper"),
        _register("gr", "gr", "none", "generalised robust loss (Chen et al., IJCAI 2024), no pseudo-labels"),
        _register("an", "an", "none", "assume negative (Cole et al., CVPR 2021)"),
        _register("full", "full", "none", "binary cross-entropy on complete labels: the upper reference"),
    ]
)


def find_method(name: str) -> Method:
    """The method called `name`: a registered one, or LOSS+SOURCE for any loss that reads pseudo-labels."""
    if name in METHODS:
        return METHODS[name]
    loss, plus, source = name.partition("+")
    if plus and loss in LOSSES and source in SOURCES:
        if not LOSSES[loss].reads_pseudo:
            raise UserError(f"--method {name}: the loss {loss} reads no pseudo-labels; use --method {loss}")
        return Method(name, LOSSES[loss], source, f"{loss} loss on labels of {source}")
    pairs = [f"{loss}+{source}" for loss in LOSSES if LOSSES[loss].reads_pseudo for source in SOURCES]
    raise UserError(f"--method {name}: no such method{did_you_mean(name, [*METHODS, *pairs])}; known are {', '.join(METHODS)}")
