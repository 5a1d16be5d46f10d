"""Tasks for Label Studio: the labels as a prediction to review, and the labelling interface beside them.

The format is that of https://labelstud.io/guide/predictions; the interface is NAME.xml. Known labels are part of the
prediction, not an annotation: Label Studio counts a task with an annotation as done, and starts a new annotation from a
prediction. A line above the choices tells given labels from proposed ones. The score is that of the least sure label: sorted
by it, the tasks most worth a look come first.

The states are in the task's `data` (`given`, `accepted`, `rejected`, `proposed`, `doubted`, `complete`, `answers`): Label Studio
keeps every field of it, and writes it again in each of its exports. An annotation could not hold them: it has no place for a
rejected label, it must belong to an account of that Label Studio, and an export of predictions is optional.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import IO, Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from aevlp import __version__
from aevlp.core.errors import UserError
from aevlp.core.files import write_text
from aevlp.data.records import LabelRecord
from aevlp.inference.completion.formats.encoding import (
    as_json,
    confidences,
    pairs,
    plain_answers,
    plain_scores,
    rounded,
    separated,
)
from aevlp.inference.completion.formats.registry import LabelFile, register_format
from aevlp.inference.completion.formats.tables import check_classes, with_classes

PREFIX = "/data/local-files/?d="
"""Address at which Label Studio serves local files; paths are relative to LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""
ADDRESSES = ("/", "http://", "https://")
"""Prefixes of web addresses, whose special characters are percent-encoded; a path in a bucket (s3://) is not."""


def has_interface(file: LabelFile) -> bool:
    """Return whether the interface is written already; refuse to replace another one."""
    path = file.out.with_suffix(".xml")
    if not path.exists():
        return False
    if not path.is_file() or path.read_bytes() != interface(file.classes).encode():
        raise UserError(f"--out {file.out}: the labelling interface is written to {path}, which exists; choose another name")
    return True


def check(file: LabelFile) -> None:
    """Refuse what would keep the tasks, the interface or the list of classes from being written."""
    has_interface(file)
    check_classes(file)


@register_format("label-studio", ".json", check=check, takes_prefix=True)
def write(file: LabelFile, records: Iterable[LabelRecord], stream: IO[bytes]) -> None:
    """Write a list of tasks, one per image, and the interface unless it is there."""
    held = (replace(record, proposed_absent={}, candidates={}) for record in records)  # a task holds no others
    stream.write(b"[\n")
    stream.writelines(separated(as_json(_task(file, record)) for record in with_classes(file, held)))
    stream.write(b"\n]\n")
    if not has_interface(file):
        write_text(file.out.with_suffix(".xml"), interface(file.classes))


def interface(classes: Iterable[str]) -> str:
    """Return the labelling interface for the tasks, in Label Studio's XML."""
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in classes)
    return (
        '<View>\n  <Image name="image" value="$image"/>\n  <Header value="$summary" size="5"/>\n'
        f'  <Choices name="labels" toName="image" choice="multiple" showInline="true">\n{choices}  </Choices>\n</View>\n'
    )


def _task(file: LabelFile, record: LabelRecord) -> dict[str, Any]:
    unsure = [score.confidence for score in (*record.proposed.values(), *record.doubted.values())]
    choices = {"choices": record.positives}
    result = {"id": "labels", "from_name": "labels", "to_name": "image", "type": "choices", "value": choices}
    prediction = {"model_version": f"aevlp {__version__}", "score": rounded(min(unsure, default=1.0)), "result": [result]}
    data = {
        "image": _address(file, record.name),
        "split": record.split,
        "summary": _summary(record),
        "given": record.observed,
        "accepted": record.accepted,
        "rejected": record.rejected,
        "proposed": plain_scores(record.proposed),
        "doubted": plain_scores(record.doubted),
        "complete": record.is_complete,
        "answers": plain_answers(record),
    }
    return {"data": data, "predictions": [prediction] if record.positives else []}


def _summary(record: LabelRecord) -> str:
    parts = {
        "given": ";".join(record.observed),
        "accepted": ";".join(record.accepted),
        "rejected": ";".join(record.rejected),
        "proposed": pairs(confidences(record.proposed)),
        "doubted": pairs(confidences(record.doubted)),
        "complete": "yes" if record.is_complete else "",
    }
    return " | ".join(f"{what}: {names}" for what, names in parts.items() if names) or "nothing given or proposed"


def _address(file: LabelFile, name: str) -> str:
    # Label Studio serves the folders below its root, not the root itself: the path begins with the image set's folder.
    path = file.relative(name, file.parent) if file.image_prefix is None else name
    prefix = PREFIX if file.image_prefix is None else file.image_prefix
    return prefix + (quote(os.fsencode(path)) if prefix.startswith(ADDRESSES) else path)
