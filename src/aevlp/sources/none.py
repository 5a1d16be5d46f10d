"""No pseudo-labels: every one is undefined."""

from typing import Any

from aevlp.sources.registry import Source, SourceContext, register_source


@register_source("none")
class NoSource(Source):
    """A source without labels: its table is 0 everywhere."""

    def __init__(self, context: SourceContext, options: Any) -> None:
        super().__init__(context, options)
        self.table = self.observed.new_zeros(self.observed.shape)
