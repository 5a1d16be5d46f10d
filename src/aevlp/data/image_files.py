"""The bytes of an image, wherever it lies: in a file, at a remote address, or inside of a tar, Parquet or Arrow file.

An image inside of a file has a path too: `shards/train-000.tar/0001.jpg`, or with the number of its row,
`train-00000.parquet/17`. Nothing is unpacked: the file is opened once, and an image is read from its place in it.
"""

import errno
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b, file_digest
from io import BufferedReader, BytesIO
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Protocol

import numpy as np

from aevlp.core.errors import UserError
from aevlp.core.files import open_regular
from aevlp.core.remote import RemotePath
from aevlp.core.threads import in_threads
from aevlp.data.fingerprint import DIGEST, Digests
from aevlp.data.tar_files import TarImages

if TYPE_CHECKING:
    from aevlp.data.arrow_files import ArrowRows

NO_IMAGE = "no image in this row"
ARCHIVE = re.compile(r"\.(tar|parquet|arrow)(?=/)", re.IGNORECASE)
OPEN_AT_ONCE = 256  # files whose contents are listed in memory
_LOCK = Lock()
Stamp = tuple[int, int]


class Archive(Protocol):
    """A file that holds images."""

    def image(self, name: str) -> bytes | Path:
        """Return an image's bytes, or the file that they are in; FileNotFoundError if it is not here, OSError if it is bad."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of all that is in it."""
        ...


def is_archive(file: Path) -> bool:
    """Return whether a file is one that images are inside of, by its name."""
    return ARCHIVE.search(f"{file.name}/") is not None


def open_image(path: Path) -> BufferedReader | BytesIO:
    """Open an image for reading; OSError if it is missing, or no regular file."""
    if (found := archive_at(path)) is not None:
        content = opened(found[0]).image(found[1])
        if isinstance(content, bytes):
            return BytesIO(content)
        path = content
    return BytesIO(path.read_bytes()) if isinstance(path, RemotePath) else open_regular(path)


def archive_at(path: Path) -> tuple[Path, str] | None:
    """Return the archive that a path leads into, and the rest of the path; None if it leads into none."""
    text = str(path)
    for match in ARCHIVE.finditer(text):
        file = type(path)(text[: match.end()])
        if file.is_file():
            return file, text[match.end() + 1 :]
    return None


def opened(file: Path) -> Archive:
    """Return an archive, listed once until it changes."""
    stamp = stamp_of(file)
    with _LOCK:  # two threads would list the same file
        return _opened(file, stamp)


@lru_cache(maxsize=OPEN_AT_ONCE)
def _opened(file: Path, stamp: Stamp) -> Archive:
    return TarImages(file, _open, _read_range) if file.suffix.lower() == ".tar" else open_rows(file)


def open_rows(file: Path) -> "ArrowRows":
    """Return the rows of a Parquet or Arrow file."""
    rows: ArrowRows = arrow_files(f"{file}: cannot be read").open_arrow(file)
    return rows


def arrow_files(wrong: str) -> Any:
    """Return the module that reads and writes Parquet; `wrong` opens the message if pyarrow, an extra, is not installed."""
    try:
        from aevlp.data import arrow_files  # pyarrow takes long to load, and only these files need it
    except ImportError:
        raise UserError(f"{wrong} without pyarrow; pip install 'aevlp[datasets]'") from None
    return arrow_files


def _open(file: Path) -> IO[bytes]:
    return file.open("rb") if isinstance(file, RemotePath) else open_regular(file)


def _read_range(file: Path, start: int, size: int) -> bytes:
    if isinstance(file, RemotePath):
        return file.read_range(start, size)
    with open_regular(file) as opened:
        opened.seek(start)
        return opened.read(size)


def stamp_of(file: Path) -> Stamp:
    """Return the size of a file and the time of its last change, or its version at a remote address; OSError without one."""
    if isinstance(file, RemotePath):
        return file.version()
    state = file.stat()
    if not stat.S_ISREG(state.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    return state.st_size, state.st_mtime_ns


def is_image_file(path: Path) -> bool:
    """Return whether there is a file of that name, in a folder or inside of an archive."""
    if path.is_file():
        return True
    try:
        return (found := archive_at(path)) is not None and opened(found[0]).image(found[1]) is not None
    except OSError:
        return False


def digests(paths: Sequence[Path], workers: int | None = None, progress: Callable[[int], None] | None = None) -> Digests:
    """Return the digest of each file. Equal files have equal digests, whatever their names.

    `progress` gets the number done so far.
    """
    return np.array(in_threads(_digest, paths, workers, progress), dtype=f"S{DIGEST}")


def _digest(path: Path) -> bytes:
    try:
        with open_image(path) as file:
            return file_digest(file, lambda: blake2b(digest_size=DIGEST)).digest()
    except OSError:
        return b""  # whoever needs its pixels reports the reason


def unchanged(path: Path, file: IO[bytes], digest: bytes) -> IO[bytes]:
    """Return the content of an open file, which must have this digest: what was listed is not computed from something else."""
    content = file.read()
    if blake2b(content, digest_size=DIGEST).digest() != digest.ljust(DIGEST, b"\0"):  # numpy takes the zeros off the end
        # Or it was given another content of the same size, and its old time: a new time lets it be read anew.
        again = "give the command again when nothing changes it (if nothing does, touch the file)"
        raise UserError(f"{path}: changed since this command read it first; {again}")
    return BytesIO(content)
