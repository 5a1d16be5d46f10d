"""No pseudo-labels: every one is undefined."""

from __future__ import annotations

from typing import Any

from aevlp.sources.registry import Source, SourceContext, register_source


@register_source("none")
class NoSource(Source):
    """Pseudo-labels that say nothing."""

    def __init__(self, context: SourceContext, options: Any) -> None:
        import torch

        super().__init__(context, options)
        self.table = torch.zeros(context.split.observed.shape, dtype=torch.int8)
