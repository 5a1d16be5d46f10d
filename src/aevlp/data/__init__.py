"""What an image set is: one table type, one reader per format, splits, the single-positive protocol, checks."""

from aevlp.data.readers import read
from aevlp.data.splits import Dataset, Split, prepare
from aevlp.data.table import ImageTable

__all__ = ["Dataset", "ImageTable", "Split", "prepare", "read"]
