"""Parquet files with a column of images, as Hugging Face `datasets` writes and the hub keeps them."""

from pathlib import Path

from aevlp.data.arrow_sets import read_rows
from aevlp.data.dataset import ImageTable
from aevlp.data.files import files_of, is_set_of
from aevlp.data.label_columns import split_of
from aevlp.data.readers import DETECTED, ChosenColumns, Reader, register

SUFFIX = ".parquet"


def detects(path: Path) -> bool:
    """Return whether this is a Parquet file, or a folder with some in it."""
    return is_set_of(path, SUFFIX)


def read(path: Path, chosen: ChosenColumns = DETECTED) -> ImageTable:
    """Return one image per row, file by file in the order of their names; a file's name tells its split."""
    root, names = files_of(path, SUFFIX)
    return read_rows(root, [(name, split_of(name)) for name in names], chosen, "parquet")


LOOKS_LIKE = "Parquet files with a column of images"
register(Reader("parquet", detects, read, LOOKS_LIKE, rank=1, takes_columns=True))
