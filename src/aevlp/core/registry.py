"""Registries: named things of one kind, each entered by the file that defines it."""

import pkgutil
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from aevlp.core.errors import UserError, did_you_mean

T = TypeVar("T")


class Registry(dict[str, T]):
    """Name -> thing, in the order of registration. `noun` is what messages call one of them."""

    def __init__(self, noun: str) -> None:
        super().__init__()
        self.noun = noun

    def add(self, name: str, thing: T) -> None:
        """Enter a thing; two of one name are a mistake in the code."""
        if name in self:
            raise ValueError(f"there is a {self.noun} called {name!r} already")
        self[name] = thing

    def find(self, name: str, said: str) -> T:
        """Return the thing called `name`; refuse an unknown name, which the user gave as `said`."""
        if name not in self:
            raise UserError(f"{said}: no such {self.noun}{did_you_mean(name, self)}; known are {', '.join(self)}")
        return self[name]


def load_files(package: str) -> dict[str, ModuleType]:
    """Import every file of a package, so that each registers what it defines; file name -> module."""
    return {file.name: import_module(f"{package}.{file.name}") for file in pkgutil.iter_modules(sys.modules[package].__path__)}


def summary_of(thing: Callable[..., Any]) -> str:
    """Return the first line of the file that a function or class is defined in, without its full stop."""
    return (sys.modules[thing.__module__].__doc__ or "").splitlines()[0].removesuffix(".")
