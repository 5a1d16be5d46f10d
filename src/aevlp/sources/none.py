"""No pseudo-labels: every one is undefined."""

from __future__ import annotations

from typing import Any

from aevlp.sources.registry import Source, Task, register_source


@register_source("none")
class Nothing(Source):
    """Pseudo-labels that say nothing."""

    def __init__(self, task: Task, options: Any) -> None:
        import torch

        super().__init__(task, options)
        self.table = torch.zeros(task.split.observed.shape, dtype=torch.int8)
