"""A classifier of features alone: a head without a backbone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from aevlp.core.files import write_json
from aevlp.core.options import Options
from aevlp.core.seeds import seed_for
from aevlp.models.checkpoint import WEIGHTS
from aevlp.models.classifier import Classifier, CustomHead
from aevlp.models.heads import HEADS, HeadKind
from aevlp.models.heads.registry import OWN_TYPE

WIDTH = "features"


class FeatureNetwork(nn.Module):
    """What stands in the place of a backbone's network: the head alone."""

    def __init__(self, head: nn.Module, classes: Sequence[str]) -> None:
        super().__init__()
        self.classifier = head
        self.config = SimpleNamespace(id2label=dict(enumerate(classes)))


class FeatureClassifier(Classifier):
    """Features [N, D] -> logits. They are divided by `scale` first, so that embeddings of any length are learnt from alike."""

    def __init__(self, width: int, scale: float, classes: Sequence[str], own: CustomHead | None = None) -> None:
        nn.Module.__init__(self)
        head = nn.Linear(width, len(classes)) if own is None else own.kind.make(width, len(classes), own.options)
        self.width, self.scale, self.own = width, scale, own
        self.network = FeatureNetwork(head, classes)

    def forward(self, shown: Tensor) -> Tensor:
        """Logits [N, C] of features [N, D]."""
        return super().forward(self.features(shown))

    def features(self, shown: Tensor) -> Tensor:
        """Float32 [N, D]: what the head sees."""
        return shown.float() / self.scale

    def save(self, folder: Path) -> None:
        """Writes weights and configuration."""
        folder.mkdir(parents=True, exist_ok=True)
        head = None if self.own is None else {"head": self.own.kind.name, "options": asdict(self.own.options)}
        write_json(
            folder / "config.json",
            {
                "model_type": OWN_TYPE,
                "problem_type": "multi_label_classification",
                "id2label": {str(i): name for i, name in self.network.config.id2label.items()},
                OWN_TYPE: {WIDTH: self.width, "scale": self.scale, **(head or {})},
            },
        )
        save_file({name: value.contiguous().cpu() for name, value in self.network.state_dict().items()}, folder / WEIGHTS)


def build_feature_classifier(
    width: int,
    scale: float,
    classes: Sequence[str],
    seed: int,
    head: HeadKind | None,
    options: Options | None,
) -> FeatureClassifier:
    """Return a head for `classes` on features [N, width] whose root mean square is `scale`; its weights depend on the seed."""
    own = None if head is None else CustomHead(head, options or head.options(), width)
    with torch.random.fork_rng():
        torch.manual_seed(seed_for(seed, "head"))
        return FeatureClassifier(width, scale, classes, own)


def load_feature_classifier(folder: Path, config: dict[str, Any]) -> FeatureClassifier:
    """What `save` wrote; `config` is the content of its config.json."""
    saved, names = config[OWN_TYPE], config["id2label"]
    kind = HEADS[saved["head"]] if "head" in saved else None
    own = None if kind is None else CustomHead(kind, kind.options(**saved["options"]), saved[WIDTH])
    classifier = FeatureClassifier(saved[WIDTH], saved["scale"], [names[key] for key in sorted(names, key=int)], own)
    classifier.network.load_state_dict(load_file(folder / WEIGHTS))
    return classifier
