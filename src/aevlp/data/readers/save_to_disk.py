"""A folder that `save_to_disk` of Hugging Face `datasets` wrote: Arrow files, in a folder per split if it has splits."""

from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.core.files import read_json
from aevlp.data.arrow_sets import read_rows
from aevlp.data.dataset import ImageTable
from aevlp.data.label_columns import split_of
from aevlp.data.readers import DETECTED, ChosenColumns, Reader, register

SPLITS_FILE, STATE_FILE = "dataset_dict.json", "state.json"


def detects(path: Path) -> bool:
    """Return whether `save_to_disk` wrote this folder."""
    return path.is_dir() and any((path / name).is_file() for name in (SPLITS_FILE, STATE_FILE))


def read(path: Path, chosen: ChosenColumns = DETECTED) -> ImageTable:
    """Return one image per row, in the order that `load_from_disk` gives them."""
    if not detects(path):
        raise UserError(f"{path}: no {SPLITS_FILE} or {STATE_FILE} in it; save_to_disk of datasets writes one")
    folders = [""]
    if (path / SPLITS_FILE).is_file():
        folders = [name for name in _listed(path / SPLITS_FILE, "splits") if isinstance(name, str)]
    files = []
    for folder in folders:
        for entry in _listed(path / folder / STATE_FILE, "_data_files"):
            name = entry.get("filename") if isinstance(entry, dict) else None
            if not isinstance(name, str) or "/" in name or not (path / folder / name).is_file():
                raise UserError(
                    f"{path / folder / STATE_FILE}: names a file that is not there ({name}); save or fetch the set again"
                )
            files.append((f"{folder}/{name}".lstrip("/"), split_of(folder)))
    if not files:
        raise UserError(f"{path}: no data in it; save the set again")
    return read_rows(path, files, chosen, "save-to-disk")


def _listed(file: Path, key: str) -> list[object]:
    found = read_json(file).get(key)
    if not isinstance(found, list):
        raise UserError(f"{file}: no list '{key}' in it; save the set again")
    return found


LOOKS_LIKE = "a folder that save_to_disk of datasets wrote"
register(Reader("save-to-disk", detects, read, LOOKS_LIKE, rank=-2, takes_columns=True))
