"""Errors that the user can put right, and the words that their messages share."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """One clear line: which file or option, what is wrong, what to do. The command line prints it and exits with 2."""


class OptionError(UserError):
    """A wrong value of an option: the option's key, and the reason."""

    def __init__(self, option: str, wrong: str) -> None:
        super().__init__(f"--{option} {wrong}")
        self.option, self.wrong = option, wrong


def require(holds: bool, option: str, wanted: str, value: object) -> None:
    """Refuse the value of an option unless the condition holds."""
    if not holds:
        raise OptionError(option, f"must be {wanted}, not {value}")


def one_line(error: BaseException) -> str:
    """Return the error's type and the first line of its text, for the end of a one-line message."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'dog'?)`, or nothing if no known name is near; case does not matter."""
    by_lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), by_lower, n=1)
    return f" (did you mean '{by_lower[near[0]]}'?)" if near else ""


def first_few(names: Iterable[str], most: int = 3) -> str:
    """Return the first few names, separated by commas, with `...` after them if there are more."""
    listed = list(names)
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")
