"""The checkpoint of a run: the state of the training after its last finished epoch, and the one before, should it be damaged.

A checkpoint is a file of torch, followed by a mark and a checksum of everything before, which torch passes over.
"""

import logging
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, cast

import torch

from aevlp.core.errors import UserError
from aevlp.core.files import whole_file

PREVIOUS = "previous.pt"
MARK, CHECKSUM = b"aevlp blake2b 16", 16  # bytes
CHUNK = 1 << 20  # bytes that are read at once

log = logging.getLogger("aevlp")


class _Damaged(Exception):
    """A file that is not a whole checkpoint; the message says why."""


class _Summed:
    """The file that torch writes, with a checksum of what is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._sum = file, blake2b(digest_size=CHECKSUM)

    def write(self, content: Any) -> int:
        self._sum.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()

    def write_checksum(self) -> None:
        self._file.write(MARK + self._sum.digest())


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint, atomically, and keep the one before beside it."""
    with whole_file(path) as file:
        summed = _Summed(file)
        try:
            torch.save(state, cast(IO[bytes], summed))
        except RuntimeError as error:
            cause = error.__context__
            if cause is None or isinstance(cause, Exception):
                raise
            raise cause from None  # an interrupt, which torch covers with an error about the unfinished file
        summed.write_checksum()
        if path.is_file():
            path.replace(path.with_name(PREVIOUS))


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """Return the checkpoint, or the one before if it is damaged; None before the first epoch is finished."""
    previous = path.with_name(PREVIOUS)
    damage: list[str] = []
    for file in (path, previous):
        if not file.is_file():
            continue
        try:
            state = _read(file)
        except (OSError, _Damaged) as error:
            damage.append(f"{file.name} is damaged ({error})")
            continue
        if file == previous:
            log.warning("%s: %s; going on from the epoch before", path.parent, "".join(damage) or f"{path.name} is missing")
        return state
    if damage:
        raise UserError(f"--resume: {path.parent}: {' and '.join(damage)}; no checkpoint is left: start anew with --overwrite")
    return None


def _read(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        end = max(file.stat().st_size - len(MARK) - CHECKSUM, 0)
        found = blake2b(digest_size=CHECKSUM)
        while stream.tell() < end:
            found.update(stream.read(min(CHUNK, end - stream.tell())))
        mark, checksum = stream.read(len(MARK)), stream.read()
    if mark == MARK and checksum != found.digest():  # checkpoints of older versions have neither
        raise _Damaged("its checksum differs")
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # of nearly any kind, and with the advice to unpickle the file
        raise _Damaged("torch cannot read it") from error
    if not isinstance(state, dict):
        raise _Damaged("it holds something else")
    return state
