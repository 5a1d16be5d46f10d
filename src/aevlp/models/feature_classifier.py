"""The classifier of features: a head without a backbone."""

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from aevlp.core.options import Options
from aevlp.core.seeds import seed_for
from aevlp.models.classifier import Classifier, CustomHead
from aevlp.models.heads import HeadKind


class FeatureNetwork(nn.Module):
    """The head alone, in place of a backbone's network."""

    def __init__(self, head: nn.Module, classes: Sequence[str]) -> None:
        super().__init__()
        self.classifier = head
        self.config = SimpleNamespace(id2label=dict(enumerate(classes)))


class FeatureClassifier(Classifier):
    """Features [N, D] -> logits. It divides them by `scale` first, so that embeddings of any magnitude train alike."""

    def __init__(self, width: int, scale: float, classes: Sequence[str], custom_head: CustomHead | None = None) -> None:
        nn.Module.__init__(self)
        if custom_head is None:
            head: nn.Module = nn.Linear(width, len(classes))
        else:
            head = custom_head.kind.make(width, len(classes), custom_head.options)
        self.width, self.scale, self.custom_head = width, scale, custom_head
        self.network = FeatureNetwork(head, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits [N, C] of features [N, D]."""
        return super().forward(self.features(inputs))

    def features(self, inputs: Tensor) -> Tensor:
        """Return the head's input, float32 [N, D]."""
        return inputs.float() / self.scale


def build_feature_classifier(
    width: int,
    scale: float,
    classes: Sequence[str],
    seed: int,
    head: HeadKind | None,
    options: Options | None,
) -> FeatureClassifier:
    """Return a head for `classes` on features [N, width] whose root mean square is `scale`; its weights depend on the seed."""
    custom = None if head is None else CustomHead(head, options or head.options(), width)
    with torch.random.fork_rng():
        torch.manual_seed(seed_for(seed, "head"))
        return FeatureClassifier(width, scale, classes, custom)
