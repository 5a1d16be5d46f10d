"""Methods: a method is a name for a loss, a label source and a head, or for the scores of a teacher alone."""

from dataclasses import dataclass, fields
from typing import Any

from aevlp.core.citations import (
    AEVLP,
    BOOST,
    ENHANCEMENT,
    LARGE_LOSS,
    MUTUAL_INFORMATION,
    SINGLE_POSITIVE,
    UNKNOWN,
    VISION_LANGUAGE,
)
from aevlp.core.errors import UserError, did_you_mean
from aevlp.losses import LOSSES, Loss
from aevlp.losses.registry import LossOptions
from aevlp.models.heads import HEADS, HeadKind
from aevlp.models.options import TeacherOptions
from aevlp.sources import SOURCES, SourceKind


@dataclass(frozen=True)
class Method:
    """A loss, a source and a head (None: the backbone's own, a linear layer).

    Without a loss nothing is trained: the scores of the source's teacher are the probabilities.
    """

    name: str
    loss: Loss | None
    source: SourceKind
    head: HeadKind | None
    summary: str
    paper: str
    whole_image: bool = False  # without a loss: the teacher scores the whole image, not its tiles

    @property
    def loss_options(self) -> type[LossOptions]:
        """The dataclass of the loss's options."""
        return LossOptions if self.loss is None else self.loss.options

    @property
    def needs_truth(self) -> bool:
        """True if it trains on complete labels."""
        return self.loss is not None and self.loss.needs_truth

    @property
    def sections(self) -> dict[str, type[Any]]:
        """Section -> dataclass of the method's own options, without empty ones."""
        own: dict[str, type[Any]] = {"loss": self.loss_options, self.source.section: self.source.options}
        if self.source.asks_teacher:
            own["teacher"] = TeacherOptions
        if self.head is not None:
            own[self.head.name] = self.head.options
        return {section: kind for section, kind in own.items() if fields(kind)}

    @property
    def wants_expected_positives(self) -> bool:
        """True if the loss or the source takes the expected number of positives per image."""
        return self.loss is not None and (self.loss.wants_expected_positives or self.source.wants_expected_positives)

    @property
    def parts(self) -> str:
        """The names of head, loss and source, joined by +; its own name if it has no loss."""
        if self.loss is None:
            return self.name
        own = [self.head.name] if self.head is not None else []
        return "+".join([*own, self.loss.name, *([self.source.name] if self.source.name != "none" else [])])


def _method(name: str, loss: str, source: str, summary: str, paper: str, head: str | None = None) -> Method:
    return Method(name, LOSSES[loss], SOURCES[source], None if head is None else HEADS[head], summary, paper)


_TRIPLES = [
    _method("consensus", "soft-gpr", "consensus", "robust loss on what teacher, backbone and tags agree on", ""),
    _method("aevlp", "gpr", "damp", "robust loss on the labels of a vision-language model that looks at image and tiles", AEVLP),
    _method("vlpl", "vlpl", "vlpl", "the labels of a vision-language model that looks at the image once", VISION_LANGUAGE),
    _method("role", "role", "estimates", "every training label is estimated along with the classifier", SINGLE_POSITIVE),
    _method("em-apl", "em-apl", "apl", "entropy maximisation, and soft negatives for what the classifier rules out", UNKNOWN),
    _method("ll-ct", "bce", "ll-ct", "unknown labels with the largest losses count as positive for a batch", LARGE_LOSS),
    _method("ll-cp", "bce", "ll-cp", "unknown labels with the largest losses count as positive for good", LARGE_LOSS),
    _method("smile", "smile", "enhancer", "soft labels of a network over the graph of similar images", ENHANCEMENT),
    _method("mime", "bce", "confident", "what a head with latents is sure of becomes positive", MUTUAL_INFORMATION, "latent"),
    _method("boostlu+ll-r", "ll-r", "none", "large losses are left out, strong places count more", BOOST, "boostlu"),
]
_CLIP = "Radford et al., Learning Transferable Visual Models From Natural Language Supervision, ICML 2021"
_ZERO_SHOT = [
    Method(
        "zero-shot", None, SOURCES["damp"], None, "no training: the teacher's scores of the whole image", _CLIP, whole_image=True
    ),
    Method("zero-shot-views", None, SOURCES["damp"], None, "no training: the teacher's scores over image and tiles", AEVLP),
]
METHODS: dict[str, Method] = {
    **{method.name: method for method in _TRIPLES},
    **{
        loss.name: Method(loss.name, loss, SOURCES["none"], None, loss.summary, loss.paper)
        for loss in LOSSES.values()
        if loss.reads is None
    },
    **{method.name: method for method in _ZERO_SHOT},
}
"""By name. A loss that reads only the observed labels is a method by itself."""


def find_method(name: str) -> Method:
    """Return the method called `name`: a registered one, LOSS+SOURCE if the loss reads what the source yields, or HEAD+either."""
    return _find(name, f"--method {name}")


def _find(name: str, said: str) -> Method:
    """Return the method called `name`, which is a part of what the user `said`."""
    if name in METHODS:
        return METHODS[name]
    first, plus, rest = name.partition("+")
    if plus and first in HEADS:
        return _with_head(HEADS[first], _find(rest, said), said)
    if first in LOSSES and (rest in SOURCES or not plus):
        return _pair(LOSSES[first], rest, said)
    if name.rpartition("+")[2] in HEADS:
        raise UserError(f"{said}: a head goes before the rest, as in boostlu+ll-r")
    what = f" as '{name}'" if said != f"--method {name}" else ""
    near = did_you_mean(name, [*METHODS, *_pairs()])
    raise UserError(f"{said}: no such method{what}{near}; aevlp methods lists them")


def _pair(loss: Loss, source: str, said: str) -> Method:
    """Return the loss with the source of that name; '' means that none was given."""
    fitting = [kind.name for kind in SOURCES.values() if kind.yields == loss.reads]
    if not source:
        raise UserError(f"{said}: the loss {loss.name} needs a source: {', '.join(f'{loss.name}+{name}' for name in fitting)}")
    kind = SOURCES[source]
    if loss.reads is None:
        readers = [f"{other.name}+{source}" for other in LOSSES.values() if other.reads == kind.yields]
        raise UserError(f"{said}: the loss {loss.name} reads no pseudo-labels; use {loss.name} alone, or {' or '.join(readers)}")
    if kind.name not in fitting:
        raise UserError(
            f"{said}: the loss {loss.name} reads {loss.reads} labels and the source {source} yields {kind.yields} ones; "
            f"{loss.name} goes with {', '.join(fitting)}"
        )
    return Method(f"{loss.name}+{source}", loss, kind, None, f"{loss.summary}, with: {kind.summary}", kind.paper)


def _with_head(head: HeadKind, method: Method, said: str) -> Method:
    if method.loss is None:
        raise UserError(f"{said}: {method.name} trains nothing, so it has no head to replace")
    if method.head is not None:
        raise UserError(f"{said}: {method.name} has a head already, {method.head.name}")
    name = f"{head.name}+{method.name}"
    return Method(name, method.loss, method.source, head, f"{method.summary}, with: {head.summary}", head.paper)


def _pairs() -> list[str]:
    return [f"{loss.name}+{kind.name}" for loss in LOSSES.values() for kind in SOURCES.values() if loss.reads == kind.yields]
