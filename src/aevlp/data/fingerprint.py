"""Names for the content of image files and of image sets."""

import os
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b, file_digest
from pathlib import Path

import numpy as np
import numpy.typing as npt

from aevlp.core.files import open_regular
from aevlp.core.threads import in_threads

DIGEST = 16  # bytes
Digests = npt.NDArray[np.bytes_]
"""S16 [N]: a hash of all bytes of each file; b"" where a file cannot be read."""


def digests(paths: Sequence[Path], workers: int | None = None, progress: Callable[[int], None] | None = None) -> Digests:
    """Return the digest of each file. Equal files have equal digests, whatever their names.

    `progress` gets the number done so far.
    """
    return np.array(in_threads(_digest, paths, workers, progress), dtype=f"S{DIGEST}")


def different(digests: Digests) -> tuple[Digests, npt.NDArray[np.intp]]:
    """Return the different digests, sorted, and the first row of each; several times as fast as `numpy.unique`."""
    order = np.argsort(digests, kind="stable")
    ordered = digests[order]
    is_first = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    return ordered[is_first], order[is_first]


def set_fingerprint(names: Sequence[str], digests: Iterable[bytes]) -> str:
    """Return a hex hash of names and digests, in their order."""
    state = blake2b(digest_size=16)
    for name, digest in zip(names, digests, strict=True):
        # A name contains no null byte and a digest has one length, so that two different sets never give the same bytes.
        state.update(os.fsencode(name) + b"\0" + digest.ljust(DIGEST, b"\0"))
    return state.hexdigest()


def _digest(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file_digest(file, lambda: blake2b(digest_size=DIGEST)).digest()
    except OSError:
        return b""  # whoever needs its pixels reports the reason
