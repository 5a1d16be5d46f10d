"""Label sources, one file each: pseudo-labels, soft labels or estimates, which a loss reads beside the observed labels.

A new file in this folder that registers a source needs no other line anywhere. Like the losses, the files load without torch.
"""

from aevlp.core.registry import load_files
from aevlp.sources.registry import SOURCES, EpochContext, Source, SourceContext, SourceKind, register_source

load_files(__name__)

__all__ = ["SOURCES", "EpochContext", "Source", "SourceContext", "SourceKind", "register_source"]
