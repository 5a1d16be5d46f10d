"""Parquet files with the images in them, which `datasets.load_dataset` opens; itself an image set that aevlp reads.

`image`, and its `name` in the set; `observed`, `accepted`, `rejected` and `proposed` are lists of classes, `confidence` that of
each proposed label; `complete` is true or false. Each split has files of its own.
"""

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from aevlp.core.errors import UserError
from aevlp.data.arrow_sets import COMPLETE, CONFIDENCE, WRITTEN
from aevlp.data.image_files import arrow_files, open_image
from aevlp.data.records import LabelRecord
from aevlp.inference.completion.formats.registry import LabelFile, register_format

ROWS = 100  # of a row group: as many as are read at once to get one image
FILE_BYTES = 500 << 20  # of images in a file
SPLITS = {"train": "train", "val": "validation", "test": "test"}  # as `datasets` names them


def check(file: LabelFile) -> None:
    """Refuse to begin without pyarrow."""
    _arrow(file.out)


@register_format("parquet", "", check=check)
def write(file: LabelFile, records: Iterable[LabelRecord], folder: Path) -> None:
    """Write the files of each split."""
    arrow, number = _arrow(file.out), {name: index for index, name in enumerate(file.classes)}
    schema = _schema(arrow.pa, file.classes)
    parts: dict[str, _SplitFiles] = {}
    for record in records:
        split = SPLITS[record.split]
        if split not in parts:
            parts[split] = _SplitFiles(arrow, schema, folder, split)
        parts[split].add(_row(file, record, number))
    for part in parts.values():
        part.finish()


def _arrow(out: Path) -> Any:
    return arrow_files(f"--out {out}: Parquet cannot be written")


def _row(file: LabelFile, record: LabelRecord, number: dict[str, int]) -> dict[str, Any]:
    path = file.path(record.name)
    try:
        with open_image(path) as image:
            content = image.read()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); replace or remove the file") from None
    names = (record.observed, record.accepted, record.rejected, record.proposed)
    return {
        "image": {"bytes": content, "path": PurePosixPath(record.name).name},
        "name": record.name.encode(errors="backslashreplace").decode(),
        **{column: [number[name] for name in labels] for column, labels in zip(WRITTEN, names, strict=True)},
        CONFIDENCE: [score.confidence for score in record.proposed.values()],
        COMPLETE: record.is_complete,
    }


def _schema(pa: Any, classes: tuple[str, ...]) -> Any:
    """Return the columns, described as `datasets` describes them: labels by their numbers, with the names of all classes."""
    value = {"dtype": "string", "_type": "Value"}
    labels = {"feature": {"names": list(classes), "_type": "ClassLabel"}, "_type": "Sequence"}
    features = {
        "image": {"_type": "Image"},
        "name": value,
        **dict.fromkeys(WRITTEN, labels),
        CONFIDENCE: {"feature": {**value, "dtype": "float64"}, "_type": "Sequence"},
        COMPLETE: {**value, "dtype": "bool"},
    }
    columns = [("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("name", pa.string())]
    columns += [(name, pa.list_(pa.int64())) for name in WRITTEN]
    columns += [(CONFIDENCE, pa.list_(pa.float64())), (COMPLETE, pa.bool_())]
    return pa.schema(columns, metadata={b"huggingface": json.dumps({"info": {"features": features}}).encode()})


class _SplitFiles:
    """The files of a split."""

    def __init__(self, arrow: Any, schema: Any, folder: Path, split: str) -> None:
        self.arrow, self.schema, self.folder, self.split = arrow, schema, folder, split
        self.rows: list[dict[str, Any]] = []
        self.files: list[Path] = []
        self.writer: Any = None
        self.bytes = 0

    def add(self, row: dict[str, Any]) -> None:
        """Write a row, together with others."""
        self.rows.append(row)
        if len(self.rows) == ROWS:
            self._write()

    def _write(self) -> None:
        if self.writer is None:
            self.files.append(self.folder / f"{self.split}-{len(self.files):05d}.parquet")
            self.writer, self.bytes = self.arrow.pq.ParquetWriter(str(self.files[-1]), self.schema), 0
        self.writer.write_table(self.arrow.pa.Table.from_pylist(self.rows, self.schema), row_group_size=ROWS)
        self.bytes += sum(len(row["image"]["bytes"]) for row in self.rows)
        self.rows = []
        if self.bytes >= FILE_BYTES:
            self._close()

    def _close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def finish(self) -> None:
        """Write what is left; the names of the files then say how many there are."""
        if self.rows:
            self._write()
        self._close()
        for file in self.files:
            file.rename(file.with_stem(f"{file.stem}-of-{len(self.files):05d}"))
