"""Labels with confidences for FiftyOne.

The format is `FiftyOneImageClassificationDataset` of https://docs.voxel51.com/user_guide/import_datasets.html: a list of
multilabel targets per image, each with the index of its class, a confidence and attributes (see `scored`). The format has no
place for negatives and splits.
"""

from collections.abc import Iterable
from typing import IO

from aevlp.inference.completion.formats.encoding import as_json, scored, separated
from aevlp.inference.completion.formats.registry import LabelFile, register_format
from aevlp.inference.completion.records import Completed


@register_format("fiftyone", ".json")
def write(file: LabelFile, records: Iterable[Completed], stream: IO[bytes]) -> None:
    """Write one object: the classes, and the targets of each image; null for an image without labels."""
    index = {name: number for number, name in enumerate(file.classes)}

    def image(record: Completed) -> bytes:
        targets = [
            {"label": index[name], "confidence": confidence, "attributes": attributes}
            for name, confidence, attributes in scored(record)
        ]
        return as_json(str(file.path(record.name))) + b": " + as_json(targets or None)

    stream.write(b'{"classes": ' + as_json(file.classes) + b',\n"labels": {\n')
    stream.writelines(separated(image(record) for record in records))
    stream.write(b"\n}}\n")
