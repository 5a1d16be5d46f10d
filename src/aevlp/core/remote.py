"""Remote addresses (`s3://bucket/photos`, `hf://datasets/NAME`) as paths that are read through fsspec and never written.

A `RemotePath` is a `Path` whose questions go to fsspec, so that whatever takes a path takes an address too. Make it with
`location`; `Path(text)` of an address is a path on this machine.
"""

import errno
import io
import os
import posixpath
import re
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, NoReturn

from aevlp.core.errors import UserError, one_line

if sys.platform == "win32":
    from pathlib import WindowsPath as _LocalPath
else:
    from pathlib import PosixPath as _LocalPath

SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/+")  # two letters at least: `C:` is a drive
HUB = "hub:"
"""Beginning of the name of a model on the Hugging Face hub, as in `hub:me/birds`."""
READ_ONLY = "a remote address is only read"
VERSIONS = ("ETag", "etag", "md5Hash", "blob_id", "mtime", "LastModified", "last_modified", "created")
"""Entries of a file's description, of which a file system has at least one if it can tell that a file has changed."""


def location(place: str | PathLike[str]) -> Path:
    """Return the path that a user means: one on this machine, or a remote address."""
    text = fspath(place)
    if isinstance(place, RemotePath) or (scheme := SCHEME.match(text)) is None:
        return place if isinstance(place, Path) else Path(text)
    return Path("/", text[scheme.end() :]) if scheme[1].lower() == "file" else RemotePath(text)


def local_path(place: str | PathLike[str]) -> Path:
    """Return a path on this machine; refuse a remote address."""
    path = location(place)
    if isinstance(path, RemotePath):
        raise UserError(
            f"{path}: {READ_ONLY}, and only as an image set, an image to predict or a store; give a path on this machine"
        )
    return path


def is_hub_model(path: Path) -> bool:
    """Return whether a path is the name of a model on the hub."""
    return str(path).startswith(HUB)


def joined(folder: Path, name: str) -> Path:
    """Return the path of a name, which is relative to a folder, absolute, or a remote address."""
    return RemotePath(name) if "://" in name and SCHEME.match(name) else folder / name


def names_in(folder: Path) -> list[str]:
    """Return the names of the entries of a folder; FileNotFoundError without it."""
    return [name for name, _ in folder.entries()] if isinstance(folder, RemotePath) else [path.name for path in folder.iterdir()]


class RemotePath(_LocalPath):
    """A remote address. Whatever would write to it is an OSError."""

    def __str__(self) -> str:
        """Return the address, with `..` resolved; what is relative to an address stays as it is."""
        if not self.parts or not self.parts[0].endswith(":"):
            return super().__str__()
        scheme, *rest = self.parts
        inside = posixpath.normpath("/" + "/".join(rest)).lstrip("/")
        return f"{scheme.removesuffix(':')}://{inside}"

    def __fspath__(self) -> str:
        return str(self)

    def as_posix(self) -> str:
        """Return the address."""
        return str(self)

    def _open(self) -> tuple[Any, str]:
        """Return the file system and the path in it."""
        # Imported when the first address is used: most commands have none.
        from fsspec.core import url_to_fs

        scheme = self.parts[0].removesuffix(":") if self.parts else ""
        try:
            system, path = url_to_fs(str(self))
        except ImportError as error:
            raise UserError(f"{self}: a package that reads {scheme}:// addresses is missing ({error}); install it") from None
        except ValueError as error:
            raise UserError(f"{self}: no known kind of address ({one_line(error)}); check its beginning") from None
        return system, path

    @contextmanager
    def _asking(self) -> Iterator[tuple[Any, str]]:
        """Yield the file system and the path in it; turn whatever goes wrong there into one line."""
        try:
            yield self._open()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, UserError):
            raise
        except Exception as error:  # each file system has errors of its own
            advice = "check the address, the network and your credentials"
            if self.parts[0] == "hf:":
                advice = (
                    "check the name and the network, or fetch it where there is one (hf download NAME --repo-type dataset "
                    "--local-dir DIR) and give DIR"
                )
            raise UserError(f"{self}: cannot be reached ({one_line(error)}); {advice}") from error

    def _info(self) -> dict[str, Any] | None:
        """Return the file system's description of a file or folder; None if there is none."""
        try:
            with self._asking() as (system, path):
                found: dict[str, Any] = system.info(path)
                return found
        except (FileNotFoundError, NotADirectoryError):
            return None

    def exists(self, **_: Any) -> bool:
        """Return whether there is a file or folder."""
        return self._info() is not None

    def is_file(self, **_: Any) -> bool:
        """Return whether it is a file."""
        info = self._info()
        return info is not None and info["type"] == "file"

    def is_dir(self, **_: Any) -> bool:
        """Return whether it is a folder."""
        info = self._info()
        return info is not None and info["type"] == "directory"

    def is_symlink(self) -> bool:
        """Return False."""
        return False

    def entries(self) -> list[tuple[str, bool]]:
        """Return the name of each entry of a folder and whether it is a folder, sorted."""
        with self._asking() as (system, path):
            found = {entry["name"].strip("/"): entry["type"] == "directory" for entry in system.ls(path, detail=True)}
        found.pop(path.strip("/"), None)  # a store of objects may list the folder itself, as an empty object
        return sorted((posixpath.basename(name), is_folder) for name, is_folder in found.items())

    def iterdir(self) -> Generator["RemotePath", None, None]:
        """Yield the entries of a folder, sorted."""
        yield from (self / name for name, _ in self.entries())

    def stat(self, **_: Any) -> os.stat_result:
        """Return the kind and the size of a file or folder."""
        info = self._info()
        if info is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        mode = stat.S_IFDIR if info["type"] == "directory" else stat.S_IFREG
        return os.stat_result((mode, 0, 0, 0, 0, 0, info.get("size") or 0, 0, 0, 0))

    def version(self) -> tuple[int, int]:
        """Return the size of a file and a number that changes with it; -1, -1 where the file system cannot tell."""
        info = self._info()
        if info is None or not any(info.get(name) for name in VERSIONS):
            return -1, -1
        told = str([(name, str(info.get(name))) for name in VERSIONS]).encode()
        return int(info.get("size") or 0), int.from_bytes(blake2b(told, digest_size=7).digest())

    def read_bytes(self) -> bytes:
        """Return the whole content."""
        with self._asking() as (system, path):
            content: bytes = system.cat_file(path)
            return content

    def read_range(self, start: int, size: int) -> bytes:
        """Return some bytes of the content."""
        with self._asking() as (system, path):
            content: bytes = system.cat_file(path, start=start, end=start + size)
            return content

    def open(self, mode: str = "r", *_: Any, encoding: str | None = None, newline: str | None = None, **__: Any) -> IO[Any]:  # type: ignore[override]
        """Open for reading: text is read whole, bytes as they are needed."""
        if set(mode) & set("wax+"):
            self._refuse()
        if "b" not in mode:
            return io.TextIOWrapper(io.BytesIO(self.read_bytes()), encoding=encoding, newline=newline)
        with self._asking() as (system, path):
            opened: IO[Any] = system.open(path, "rb")
            return opened

    def absolute(self) -> "RemotePath":
        """Return the address itself."""
        return self

    def resolve(self, strict: bool = False) -> "RemotePath":
        """Return the address itself."""
        return self

    def expanduser(self) -> "RemotePath":
        """Return the address itself."""
        return self

    def is_absolute(self) -> bool:
        """Return True."""
        return True

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.EROFS, READ_ONLY, str(self))

    mkdir = rename = replace = rmdir = symlink_to = touch = unlink = write_bytes = write_text = _refuse
