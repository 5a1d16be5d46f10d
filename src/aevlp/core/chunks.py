"""Long tables in parts, where all of one at once would take too much memory."""


def slices_of(count: int, size: int) -> list[slice]:
    """Return the numbers below `count` in slices of `size`; the last may be shorter."""
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]
