"""COCO annotations, each label as a box around the whole image.

An annotation has a `score` and the attributes of `scored`. An image has its `split`, under `neg_category_ids` as in LVIS the
categories that were rejected, `complete`, and in `answers` who rejected a category (`category_id`) and who looked at every class.
"""

import shutil
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from PIL import Image

from aevlp import __version__
from aevlp.core.errors import one_line
from aevlp.core.threads import in_threads
from aevlp.data.annotations import COMPLETE
from aevlp.data.image_files import open_image
from aevlp.data.images import ORIENTATION, BadImage
from aevlp.data.records import LabelRecord
from aevlp.inference.completion.formats.encoding import answered, as_json, scored, separated
from aevlp.inference.completion.formats.registry import LabelFile, register_format

TURNED = (5, 6, 7, 8)
"""EXIF orientations in which width and height are swapped."""
AT_A_TIME = 256
"""Images whose sizes are read together."""


@register_format("coco", ".json")
def write(file: LabelFile, records: Iterable[LabelRecord], stream: IO[bytes]) -> None:
    """Write one object; an unnamed file holds the annotations until all images are written."""
    category = {name: index for index, name in enumerate(file.classes, 1)}
    info = {"description": "labels completed by aevlp", "version": __version__}
    categories = [{"id": index, "name": name} for name, index in category.items()]
    stream.write(b'{"info": ' + as_json(info) + b',\n"licenses": [],\n"categories": ' + as_json(categories) + b',\n"images": [\n')
    with TemporaryFile(dir=file.out.parent) as waiting:
        ids = count(1)

        def images() -> Iterator[bytes]:
            for image_id, (record, size) in enumerate(_with_sizes(file, records), 1):
                for annotation in _annotations(record, size, category):
                    number = next(ids)
                    waiting.write(b",\n" * (number > 1) + as_json({"id": number, "image_id": image_id, **annotation}))
                yield as_json({"id": image_id, **_image(file, record, size, category)})

        stream.writelines(separated(images()))
        stream.write(b'\n],\n"annotations": [\n')
        waiting.seek(0)
        shutil.copyfileobj(waiting, stream)
    stream.write(b"\n]}\n")


def _image(file: LabelFile, record: LabelRecord, size: tuple[int, int], category: dict[str, int]) -> dict[str, Any]:
    who = [{"category_id": category[name], **answered(record, name)} for name in record.rejected if name in record.answers]
    return {
        "file_name": file.relative(record.name),
        "width": size[0],
        "height": size[1],
        "split": record.split,
        "neg_category_ids": [category[name] for name in record.rejected],
        "complete": record.is_complete,
        "answers": [*who, *([answered(record, COMPLETE)] if COMPLETE in record.answers else [])],
    }


def _annotations(record: LabelRecord, size: tuple[int, int], category: dict[str, int]) -> Iterator[dict[str, Any]]:
    whole = {"bbox": [0, 0, *size], "area": size[0] * size[1], "iscrowd": 0}
    for name, score, attributes in scored(record):
        yield {"category_id": category[name], **whole, "score": score, **attributes}


def _with_sizes(file: LabelFile, records: Iterable[LabelRecord]) -> Iterator[tuple[LabelRecord, tuple[int, int]]]:
    remaining = iter(records)
    while some := list(islice(remaining, AT_A_TIME)):
        yield from zip(some, in_threads(upright_size, [file.path(record.name) for record in some], None), strict=True)


def upright_size(path: Path) -> tuple[int, int]:
    """Return width and height with the EXIF orientation applied; for most formats only the header is read."""
    try:
        with open_image(path) as opened, Image.open(opened) as image:
            if not _is_turned(image):
                return image.size
            if image.format == "TIFF":
                image.load()  # PIL turns this format alone when it loads it
                return image.size
            return image.size[::-1]
    except Exception as error:  # decoders raise nearly anything on a broken file
        reason = one_line(error)
    # Raised outside of the handler: an OSError as its context would be taken for an error of the file being written.
    raise BadImage(f"{path}: {reason}; replace or remove the file", reason)


def _is_turned(image: Image.Image) -> bool:
    try:
        return image.getexif().get(ORIENTATION) in TURNED
    except Exception:  # broken metadata does not matter
        return False
