"""Image sets with incomplete labels: one table type, one reader per format, splits, the single-positive protocol, checks."""

from aevlp.data.dataset import Dataset, ImageTable, Split, prepare
from aevlp.data.readers import read

__all__ = ["Dataset", "ImageTable", "Split", "prepare", "read"]
