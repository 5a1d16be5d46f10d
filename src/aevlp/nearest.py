"""The nearest valid name, for messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'' or ', did you mean NAME?' for the known name most like `word`."""
    found = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean {found[0]}?" if found else ""
