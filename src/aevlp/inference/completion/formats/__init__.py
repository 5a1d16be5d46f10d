"""The file formats of completed labels, one file each. Every file in this folder that registers a format is found by itself.

They are listed in a command's help, so that nothing heavy, `aevlp.data` included, is loaded before something is written.
"""

import os
import pkgutil
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from aevlp.core.errors import UserError
from aevlp.core.files import whole_file
from aevlp.inference.completion.formats.registry import FORMATS, OPTION, Format, format_of
from aevlp.inference.completion.formats.target import Target
from aevlp.inference.completion.records import Completed

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["FORMATS", "OPTION", "Format", "check", "check_place", "format_of", "write"]


def check_place(format: Format, out: Path, *, image_prefix: str | None = None) -> None:
    """Refuses a file that exists, a place where nothing can be written, and a prefix where there are no addresses."""
    if image_prefix is not None and not format.takes_prefix:
        takers = ", ".join(other.name for other in FORMATS.values() if other.takes_prefix)
        raise UserError(f"--image-prefix does not belong to the format {format.name}, only to: {takers}; leave it out")
    if out.exists():
        raise UserError(f"--out {out}: exists; remove it or choose another name")
    place = next(folder for folder in out.absolute().parents if folder.exists())
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise UserError(f"--out {out}: nothing can be written in {place}; choose another place")


def check(format: Format, out: Path, *, root: Path, classes: Sequence[str], image_prefix: str | None = None) -> None:
    """Refuses, before any work is done, whatever would keep the labels of an image set from being written."""
    check_place(format, out, image_prefix=image_prefix)
    format.check(Target(out, root, tuple(classes), image_prefix))


def write(
    format: Format,
    out: Path,
    records: Iterable[Completed],
    *,
    root: Path,
    classes: Sequence[str],
    image_prefix: str | None = None,
) -> None:
    """Writes the records, one at a time as they come, to a file that appears when it is complete.

    `root` is the folder that the images' names are relative to; `classes` are all of the image set's, in its order.
    """
    with whole_file(out) as file:
        format.write(Target(out, root, tuple(classes), image_prefix), records, file)
