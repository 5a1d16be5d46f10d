"""Tar archives, read by the place of each member. Nothing is unpacked, no link is followed, no pickle is opened."""

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from aevlp.core.errors import UserError, one_line

BLOCK = 512  # bytes of a header
PICKLES = ("pyd", "pickle", "pkl", "pth", "pt")  # opening one may run any program


class TarImages:
    """The members of a tar archive by their names."""

    def __init__(self, file: Path, open: Callable[[Path], IO[bytes]], read_range: Callable[[Path, int, int], bytes]) -> None:
        self.file, self._read_range = file, read_range
        self._places: dict[str, tuple[int, int]] = {}  # where each begins, and its size
        for name, place, size in _members(file, open):
            if name in self._places:
                raise UserError(f"{file}: two members are called '{name}'; make the archive again, with one of them")
            self._places[name] = place, size

    def names(self) -> list[str]:
        """Return the names of the regular files, in the order of the archive."""
        return list(self._places)

    def image(self, name: str) -> bytes:
        """Return the content of a member."""
        if name not in self._places:
            raise FileNotFoundError(f"{self.file}: no member {name}")
        return self._read_range(self.file, *self._places[name])


def _members(file: Path, open: Callable[[Path], IO[bytes]]) -> Iterator[tuple[str, int, int]]:
    """Yield the name, the place and the size of each regular file of an archive."""
    try:
        with open(file) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if PurePosixPath(name).name.startswith(".") or member.isdir():
                    continue
                _refuse(member, name, file)
                yield name, member.offset_data, member.size
            stream.seek(archive.offset)
            if any(stream.read(BLOCK)):  # tarfile takes a damaged header for the end
                raise tarfile.ReadError(f"no header at byte {archive.offset}")
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise UserError(
            f"{file}: damaged, or no plain tar archive ({one_line(error)}); make it again, without compression"
        ) from None


def _refuse(member: tarfile.TarInfo, name: str, file: Path) -> None:
    if not member.isreg() or member.issparse():
        raise UserError(f"{file}: '{name}' is a link or a device, not a regular file; make the archive again, without it")
    if name.startswith("/") or ".." in PurePosixPath(name).parts or not name.isprintable():
        raise UserError(f"{file}: the name {name!r} leads out of the archive, or is no readable text; rename this member")
    if name.rpartition(".")[2].lower() in PICKLES:
        raise UserError(
            f"{file}: '{name}' is a pickle, which may run any program when it is opened; leave it out, and write labels as "
            ".json, .cls or .txt"
        )
