"""Labels with confidences for FiftyOne.

The format is `FiftyOneImageClassificationDataset` of https://docs.voxel51.com/user_guide/import_datasets.html: a list of
multilabel targets per image, each with the index of its class, a confidence and attributes (see `scored`). The format knows no
labels that an image does not have, and no splits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

from aevlp.inference.completion.formats.labels import scored
from aevlp.inference.completion.formats.registry import register_format
from aevlp.inference.completion.formats.target import Target
from aevlp.inference.completion.formats.text import as_json, separated
from aevlp.inference.completion.records import Completed


@register_format("fiftyone", ".json")
def write(target: Target, records: Iterable[Completed], file: IO[bytes]) -> None:
    """Writes one object: the classes, and the targets of each image; null for one that has no label."""
    index = {name: number for number, name in enumerate(target.classes)}

    def image(record: Completed) -> bytes:
        targets = [
            {"label": index[name], "confidence": confidence, "attributes": attributes}
            for name, confidence, attributes in scored(record)
        ]
        return as_json(str(target.path(record.name))) + b": " + as_json(targets or None)

    file.write(b'{"classes": ' + as_json(target.classes) + b',\n"labels": {\n')
    file.writelines(separated(image(record) for record in records))
    file.write(b"\n}}\n")
