"""What a loss is told beside the observed labels, one file per source: pseudo-labels, soft labels, estimates.

Every file in this folder that registers a source is found by itself. The files load without torch, as those of the losses do.
"""

import pkgutil
from importlib import import_module

from aevlp.sources.registry import SOURCES, EpochContext, Source, SourceContext, SourceKind, register_source

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["SOURCES", "EpochContext", "Source", "SourceContext", "SourceKind", "register_source"]
