"""Tasks for Label Studio: the labels as a prediction to review, and the labelling interface beside them.

The format is that of https://labelstud.io/guide/predictions; the interface is NAME.xml. Given labels are part of the
prediction, not an annotation: Label Studio counts a task with an annotation as done, and starts a new annotation from a
prediction. What was given and what was proposed is in a line above the choices. The score is that of the least sure label, so
that tasks sorted by it begin with those that are most worth a look.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from aevlp import __version__
from aevlp.core.errors import UserError
from aevlp.core.files import write_text
from aevlp.inference.completion.formats.labels import positives
from aevlp.inference.completion.formats.registry import register_format
from aevlp.inference.completion.formats.target import Target
from aevlp.inference.completion.formats.text import as_json, confidences, pairs, rounded, separated
from aevlp.inference.completion.records import Completed

PREFIX = "/data/local-files/?d="
"""Where Label Studio serves files of its own machine: paths are relative to LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT."""
ADDRESSES = ("/", "http://", "https://")
"""Prefixes of web addresses, in which some characters are written as codes; a path in a bucket (s3://) is written as it is."""


def check(target: Target) -> None:
    """Refuses to replace another interface."""
    _has_its_interface(target)


@register_format("label-studio", ".json", check=check, takes_prefix=True)
def write(target: Target, records: Iterable[Completed], file: IO[bytes]) -> None:
    """Writes a list of tasks, one per image, and the interface unless it is there."""
    file.write(b"[\n")
    file.writelines(separated(as_json(_task(target, record)) for record in records))
    file.write(b"\n]\n")
    if not _has_its_interface(target):
        write_text(_interface_file(target), interface(target.classes))


def interface(classes: Iterable[str]) -> str:
    """The labelling interface that fits the tasks, in Label Studio's XML."""
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in classes)
    return (
        '<View>\n  <Image name="image" value="$image"/>\n  <Header value="$summary" size="5"/>\n'
        f'  <Choices name="labels" toName="image" choice="multiple" showInline="true">\n{choices}  </Choices>\n</View>\n'
    )


def _task(target: Target, record: Completed) -> dict[str, Any]:
    unsure = [opinion.confidence for opinion in (*record.proposed.values(), *record.doubted.values())]
    result = {
        "id": "labels",
        "from_name": "labels",
        "to_name": "image",
        "type": "choices",
        "value": {"choices": positives(record)},
    }
    prediction = {"model_version": f"aevlp {__version__}", "score": rounded(min(unsure, default=1.0)), "result": [result]}
    return {
        "data": {"image": _address(target, record.name), "split": record.split, "summary": _summary(record)},
        "predictions": [prediction] if positives(record) else [],
    }


def _summary(record: Completed) -> str:
    parts = {
        "given": ";".join(record.observed),
        "proposed": pairs(confidences(record.proposed)),
        "doubted": pairs(confidences(record.doubted)),
    }
    return " | ".join(f"{what}: {names}" for what, names in parts.items() if names) or "nothing given or proposed"


def _address(target: Target, name: str) -> str:
    # Label Studio serves folders below its root, not the root itself: the path begins with the image set's own folder.
    path = target.relative(name, target.parent) if target.image_prefix is None else name
    prefix = PREFIX if target.image_prefix is None else target.image_prefix
    return prefix + (quote(os.fsencode(path)) if prefix.startswith(ADDRESSES) else path)


def _interface_file(target: Target) -> Path:
    return target.out.with_suffix(".xml")


def _has_its_interface(target: Target) -> bool:
    path = _interface_file(target)
    if not path.exists():
        return False
    if not path.is_file() or path.read_bytes() != interface(target.classes).encode():
        raise UserError(f"--out {target.out}: the labelling interface is written to {path}, which exists; choose another name")
    return True
