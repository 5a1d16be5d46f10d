"""Names for the content of image files and of image sets, at the cost of two small reads per file."""

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from aevlp.core.threads import in_threads

BLOCK = 4096


def digests(paths: Sequence[Path], workers: int | None = None) -> list[str]:
    """Return, per file, a hash of its size, first 4 KiB and last 4 KiB. Equal files have equal hashes; others hardly ever."""
    return in_threads(_digest, paths, workers)


def set_fingerprint(names: Sequence[str], digests: Sequence[str]) -> str:
    """Return a hex hash of names and digests, in their order."""
    state = blake2b(digest_size=16)
    for name, digest in zip(names, digests, strict=True):
        # Neither contains a null byte, so that two different sets never give the same bytes.
        state.update(os.fsencode(name) + b"\0" + digest.encode() + b"\0")
    return state.hexdigest()


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            first = file.read(BLOCK)
            file.seek(max(size - BLOCK, 0))
            last = file.read(BLOCK)
    except OSError:
        return "unreadable"  # whoever needs its pixels reports the reason
    return blake2b(size.to_bytes(8, "little") + first + last, digest_size=16).hexdigest()
