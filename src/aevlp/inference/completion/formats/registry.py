"""The registry of formats, and which of them a file is to be written in. A format's file registers itself with one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from aevlp.core.errors import UserError, did_you_mean
from aevlp.core.registry import summary_of
from aevlp.inference.completion.formats.target import Target
from aevlp.inference.completion.records import Completed

OPTION = "--out-format"
"""What the user types to choose one; `--format` is about the image set that is read."""

Writer = Callable[[Target, Iterable[Completed], IO[bytes]], None]
Check = Callable[[Target], None]


@dataclass(frozen=True)
class Format:
    """A registered format: what it is called, how its files end, what writes them."""

    name: str
    suffix: str
    write: Writer
    check: Check
    """Refuses, before any work, what the format cannot say."""
    takes_prefix: bool
    """Whether images are named by addresses, which may begin with another prefix."""

    @property
    def summary(self) -> str:
        """What it is, in a line: the first of its file."""
        return summary_of(self.write)


FORMATS: dict[str, Format] = {}


def register_format(
    name: str, suffix: str, *, check: Check = lambda target: None, takes_prefix: bool = False
) -> Callable[[Writer], Writer]:
    """A decorator that enters a function that writes all records to a file under `name`."""

    def enter(write: Writer) -> Writer:
        FORMATS[name] = Format(name, suffix, write, check, takes_prefix)
        return write

    return enter


def format_of(out: Path, asked: str | None) -> Format:
    """The format asked for, or else the only one whose files end as this one does."""
    if asked is not None:
        if asked not in FORMATS:
            raise UserError(f"{OPTION} {asked}: no such format{did_you_mean(asked, FORMATS)}; formats: {', '.join(FORMATS)}")
        if out.suffix.lower() != FORMATS[asked].suffix:
            raise UserError(f"--out {out}: a file in the format {asked} is named NAME{FORMATS[asked].suffix}; name it so")
        return FORMATS[asked]
    fitting = [format for format in FORMATS.values() if format.suffix == out.suffix.lower()]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(format.name for format in fitting)
        raise UserError(f"--out {out}: several formats are {out.suffix} files; say which with {OPTION} ({names})")
    kinds = ", ".join(f"{format.suffix} ({format.name})" for format in FORMATS.values())
    raise UserError(f"--out {out}: its name does not tell a format; end it in one of {kinds}")
