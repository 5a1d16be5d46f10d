"""Labels with confidences for FiftyOne.

The format is `FiftyOneImageClassificationDataset` of https://docs.voxel51.com/user_guide/import_datasets.html: a list of
multilabel targets per image, each with the index of its class, a confidence and attributes (see `scored`). A rejected label is a
target too, with confidence 0 and the state "rejected": the format has no other place for it. `images` holds the split and the
completeness of each image; FiftyOne ignores it.
"""

import shutil
from collections.abc import Iterable, Iterator
from tempfile import TemporaryFile
from typing import IO

from aevlp.data.annotations import COMPLETE
from aevlp.data.records import LabelRecord
from aevlp.inference.completion.formats.encoding import answered, as_json, scored, separated
from aevlp.inference.completion.formats.registry import LabelFile, register_format


@register_format("fiftyone", ".json")
def write(file: LabelFile, records: Iterable[LabelRecord], stream: IO[bytes]) -> None:
    """Write one object: the classes, the targets of each image (null without any), then the images."""
    index = {name: number for number, name in enumerate(file.classes)}

    def targets(record: LabelRecord) -> bytes:
        rejected = [(name, 0.0, {"state": "rejected", **answered(record, name)}) for name in record.rejected]
        found = [
            {"label": index[name], "confidence": confidence, "attributes": attributes}
            for name, confidence, attributes in (*scored(record), *rejected)
        ]
        return as_json(found or None)

    stream.write(b'{"classes": ' + as_json(file.classes) + b',\n"labels": {\n')
    with TemporaryFile(dir=file.out.parent) as waiting:

        def images() -> Iterator[bytes]:
            for number, record in enumerate(records):
                path = as_json(str(file.path(record.name)))
                image = {"split": record.split, "complete": record.is_complete, **answered(record, COMPLETE)}
                waiting.write(b",\n" * (number > 0) + path + b": " + as_json(image))
                yield path + b": " + targets(record)

        stream.writelines(separated(images()))
        stream.write(b'\n},\n"images": {\n')
        waiting.seek(0)
        shutil.copyfileobj(waiting, stream)
    stream.write(b"\n}}\n")
