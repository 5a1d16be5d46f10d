"""Rows of Parquet and Arrow files, as Hugging Face `datasets` writes them: images by their row, and the other columns.

Only pyarrow is needed. Whoever may lack it imports this module inside of a function (`aevlp.data.image_files.open_rows`).
"""

import errno
import json
import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aevlp.core.errors import UserError, one_line
from aevlp.core.remote import RemotePath, joined
from aevlp.data.image_files import NO_IMAGE

MOST_BYTES = 512 << 20  # of row groups that are kept in memory; one is kept in any case
HUGGING_FACE = b"huggingface"  # key of the schema's metadata with the features


class ArrowRows(ABC):
    """The rows of a file."""

    def __init__(self, file: Path, schema: pa.Schema, count: int) -> None:
        self.file, self.schema, self.count = file, schema, count
        self.features = _features(schema)
        """Column -> the feature that `datasets` describes it by, if it wrote the file."""
        self.image_columns = [field.name for field in schema if _holds_images(field, self.features.get(field.name))]

    def is_list(self, column: str) -> bool:
        """Return whether a column holds lists."""
        kind = self.schema.field(column).type
        return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))

    def is_text(self, column: str) -> bool:
        """Return whether a column holds text."""
        kind = self.schema.field(column).type
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    def is_flag(self, column: str) -> bool:
        """Return whether a column may hold 1, 0 or -1."""
        kind = self.schema.field(column).type
        return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))

    @abstractmethod
    def _cell(self, column: str, row: int) -> Any:
        """Return a value of an image column."""

    @abstractmethod
    def columns(self, names: list[str]) -> dict[str, list[Any]]:
        """Return the values of some columns, whole."""

    def names(self) -> Iterator[str]:
        """Yield the names of all images."""
        return (self.image_name(column, row) for column in self.image_columns for row in range(self.count))

    def image_name(self, column: str, row: int) -> str:
        """Return the name of an image in this file: its row, after its column if there are several of images."""
        return f"{row}" if len(self.image_columns) == 1 else f"{column}/{row}"

    def image(self, name: str) -> bytes | Path:
        """Return an image's bytes, or the file that they are in."""
        column, _, number = name.rpartition("/")
        column = column or (self.image_columns[0] if len(self.image_columns) == 1 else "")
        if column not in self.image_columns or not number.isdecimal() or int(number) >= self.count:
            raise FileNotFoundError(f"{self.file}: no image {name}")
        try:
            value = self._cell(column, int(number))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise OSError(errno.EIO, f"{self.file.name} is damaged ({one_line(error)})") from None
        content, path = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
        if content is None and not path:
            raise OSError(errno.ENODATA, NO_IMAGE)
        return bytes(content) if content is not None else joined(self.file.parent, str(path))


class _ParquetRows(ArrowRows):
    def __init__(self, file: Path) -> None:
        self._parquet = pq.ParquetFile(_source(file))
        groups = [self._parquet.metadata.row_group(index).num_rows for index in range(self._parquet.metadata.num_row_groups)]
        self._ends = np.cumsum(groups)
        self._lock = Lock()
        weakref.finalize(self, _GROUPS.forget, id(self))
        super().__init__(file, self._parquet.schema_arrow, sum(groups))

    def _cell(self, column: str, row: int) -> Any:
        group = int(np.searchsorted(self._ends, row, side="right"))

        def read() -> pa.ChunkedArray:
            return self._parquet.read_row_group(group, columns=[column], use_threads=False).column(column)

        with self._lock:  # a reader of Parquet serves one thread at a time
            values = _GROUPS.get((id(self), column, group), read)
        return values[row - (int(self._ends[group - 1]) if group else 0)].as_py()

    def columns(self, names: list[str]) -> dict[str, list[Any]]:
        with self._lock:
            table = self._parquet.read(columns=names)
        return {name: table.column(name).to_pylist() for name in names}


class _StreamRows(ArrowRows):
    def __init__(self, file: Path) -> None:
        source = pa.BufferReader(file.read_bytes()) if isinstance(file, RemotePath) else pa.memory_map(str(file))
        try:
            self._table = pa.ipc.open_stream(source).read_all()
        except pa.ArrowInvalid:  # the other of the two layouts
            source.seek(0)
            self._table = pa.ipc.open_file(source).read_all()
        super().__init__(file, self._table.schema, self._table.num_rows)

    def _cell(self, column: str, row: int) -> Any:
        return self._table.column(column)[row].as_py()

    def columns(self, names: list[str]) -> dict[str, list[Any]]:
        return {name: self._table.column(name).to_pylist() for name in names}


class _RowGroups:
    """The row groups that were read last, of all files, as long as they fit into memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str, int], pa.ChunkedArray] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[int, str, int], read: Callable[[], pa.ChunkedArray]) -> pa.ChunkedArray:
        """Return a row group, read if it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        values = read()
        with self._lock:
            self._kept[key] = values
            while len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > MOST_BYTES:
                self._kept.popitem(last=False)
        return values

    def forget(self, file: int) -> None:
        """Drop the row groups of a file."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == file]:
                del self._kept[key]


_GROUPS = _RowGroups()


def open_arrow(file: Path) -> ArrowRows:
    """Return the rows of a Parquet or Arrow file."""
    try:
        return _ParquetRows(file) if file.suffix.lower() == ".parquet" else _StreamRows(file)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the system's word: not there, no permission
        raise UserError(f"{file}: damaged, or no {file.suffix[1:]} file ({one_line(error)}); write or fetch it again") from None


def _source(file: Path) -> Any:
    return file.open("rb") if isinstance(file, RemotePath) else pa.OSFile(str(file))


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Return column -> its feature, of a schema that `datasets` wrote; empty if it did not."""
    try:
        features = json.loads((schema.metadata or {})[HUGGING_FACE])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _holds_images(field: pa.Field, feature: Any) -> bool:
    """Return whether a column holds images: a struct of `bytes` and `path`, or bytes alone."""
    if isinstance(feature, dict) and feature.get("_type") not in (None, "Image", "Value"):
        return False  # such as sounds
    kind = field.type
    if pa.types.is_struct(kind):
        names = {kind.field(index).name for index in range(kind.num_fields)}
        return "bytes" in names and names <= {"bytes", "path"} and _is_binary(kind.field("bytes").type)
    return _is_binary(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
