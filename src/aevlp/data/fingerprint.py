"""Names for the content of image files and of image sets."""

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

DIGEST = 16  # bytes
Digests = npt.NDArray[np.bytes_]
"""S16 [N]: a hash of all bytes of each file; b"" where a file cannot be read."""


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
