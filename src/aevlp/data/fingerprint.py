"""Names for the contents of image files and of image sets, at the cost of two small reads per file."""

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from aevlp.core.threads import in_threads

BLOCK = 4096


def digests(paths: Sequence[Path], workers: int | None = None) -> list[str]:
    """Per file, a hash of its size, first 4 KiB and last 4 KiB: equal for equal files, and hardly ever for others."""
    return in_threads(_digest, paths, workers)


def set_fingerprint(names: Sequence[str], digests: Sequence[str]) -> str:
    """Hex of the names and contents, in their order."""
    state = blake2b(digest_size=16)
    for name, digest in zip(names, digests, strict=True):
        # Null bytes cannot occur in either, so that no two different sets are written alike.
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
        return "unreadable"  # what is wrong with it is said when its pixels are wanted
    return blake2b(size.to_bytes(8, "little") + first + last, digest_size=16).hexdigest()
