"""File formats of completed labels, one file each. Every file in this folder that registers a format is found by itself."""

from aevlp.core.registry import load_files
from aevlp.inference.completion.formats.registry import LABEL_FORMATS, LabelFile, LabelFormat, find_format

__all__ = ["LABEL_FORMATS", "LabelFile", "LabelFormat", "find_format"]

load_files(__name__)
