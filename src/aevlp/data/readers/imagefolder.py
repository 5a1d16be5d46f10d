"""Hugging Face's imagefolder with splits: a table `metadata.csv` or `metadata.jsonl` in a folder per split.

Without splits it is a table; without a table it is a folder per class.
"""

from dataclasses import replace
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.data.dataset import SPLIT_NAMES, ImageTable
from aevlp.data.files import fixed_classes, folders_in
from aevlp.data.readers import DETECTED, ChosenColumns, Reader, register
from aevlp.data.readers.table import parse, refuse_missing, table_file
from aevlp.data.records import image_table


def detects(path: Path) -> bool:
    """Return whether all folders are splits, and each has a table."""
    return path.is_dir() and bool(_split_folders(path))


def read(path: Path, chosen: ChosenColumns = DETECTED) -> ImageTable:
    """Return one image per row, split by split."""
    folders = _split_folders(path) if path.is_dir() else []
    if not folders:
        raise UserError(f"{path}: the format 'imagefolder' is a folder per split, each with a metadata.csv or metadata.jsonl")
    placed, listed = [], fixed_classes(path)
    for folder in folders:
        [parsed] = parse(folder, chosen)
        places = [place for place, _ in parsed.placed]
        refuse_missing(folder, [record.name for _, record in parsed.placed], places.__getitem__)
        listed = listed or parsed.classes
        split = SPLIT_NAMES[folder.name]
        placed += [(place, replace(record, name=f"{folder.name}/{record.name}", split=split)) for place, record in parsed.placed]
    return image_table(placed, path, listed, "imagefolder")


def _split_folders(path: Path) -> list[Path]:
    folders = folders_in(path)
    return folders if all(folder.name in SPLIT_NAMES and table_file(folder) is not None for folder in folders) else []


LOOKS_LIKE = "a folder per split, each with a metadata.csv or metadata.jsonl"
register(Reader("imagefolder", detects, read, LOOKS_LIKE, rank=-1, takes_columns=True))
