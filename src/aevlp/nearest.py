"""The nearest valid name, for messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'dog'?)`, or nothing if no known name is near; case does not matter."""
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=1)
    return f" (did you mean '{by_lower[near[0]]}'?)" if near else ""
