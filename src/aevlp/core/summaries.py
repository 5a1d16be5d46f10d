"""What a registered thing is, in a line."""

import sys
from collections.abc import Callable
from typing import Any


def summary_of(thing: Callable[..., Any]) -> str:
    """The first line of the file that a function or class is defined in, without its full stop."""
    return (sys.modules[thing.__module__].__doc__ or "").splitlines()[0].removesuffix(".")
