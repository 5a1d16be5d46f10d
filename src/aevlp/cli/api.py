"""`aevlp.train` and `aevlp.label`: the commands, called from Python with the same names, defaults and refusals."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any, Literal

from aevlp.core.options import show_value
from aevlp.inference.completion.records import Completed

Name = str | PathLike[str]
Options = Mapping[str, str | int | float | bool | None]
"""Any other option of the command: its name without the dashes -> its value, such as {"damp.grid": 5}."""


def train(
    data: Name,
    out: Name,
    *,
    recipe: Name | None = None,
    method: str | None = None,
    teacher: Name | None = None,
    backbone: Name | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    observe: Literal["given", "single"] | None = None,
    zeros: Literal["unknown", "negative"] | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] | None = None,
    store: Name | None = None,
    resume: bool = False,
    overwrite: bool = False,
    options: Options | None = None,
) -> dict[str, Any]:
    """The content of `result.json`, after training into the run folder `out` as `aevlp train DATA --out RUN` does.

    What is None has the recipe's default. Raises `aevlp.core.errors.UserError` where the command would refuse.
    """
    from aevlp.cli.train import trained

    named = {
        **{"out": out, "recipe": recipe, "method": method, "teacher": teacher, "backbone": backbone, "epochs": epochs},
        **{"seed": seed, "observe": observe, "zeros": zeros, "device": device, "store": store},
    }
    with _at_least_a_handler():
        return trained(_words(data, named, {"resume": resume, "overwrite": overwrite}, options))[0]


def label(
    data: Name,
    out: Name,
    *,
    run: Name | None = None,
    folds: int | None = None,
    witness: Literal["teacher", "model", "both"] | None = None,
    min_precision: float | None = None,
    min_negative_precision: float | None = None,
    out_format: str | None = None,
    recipe: Name | None = None,
    teacher: Name | None = None,
    observe: Literal["given", "single"] | None = None,
    zeros: Literal["unknown", "negative"] | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] | None = None,
    store: Name | None = None,
    options: Options | None = None,
) -> Iterator[Completed]:
    """Every image with its labels completed, after writing them to `out` as `aevlp label DATA --out FILE` does.

    What is None has the command's default. Raises `aevlp.core.errors.UserError` where the command would refuse.
    """
    from aevlp.cli.label import completed

    named = {
        **{"out": out, "run": run, "folds": folds, "witness": witness, "min-precision": min_precision},
        **{"min-negative-precision": min_negative_precision, "out-format": out_format, "recipe": recipe, "teacher": teacher},
        **{"observe": observe, "zeros": zeros, "device": device, "store": store},
    }
    with _at_least_a_handler():
        return completed(_words(data, named, {}, options))[0].records()


def _words(data: Name, named: Mapping[str, Any], flags: Mapping[str, bool], options: Options | None) -> list[str]:
    """What one would type."""
    words = [fspath(data)]
    for name, value in named.items():
        if value is not None:
            words.append(f"--{name}={fspath(value) if isinstance(value, PathLike) else value}")
    words += [f"--{name}" for name, is_set in flags.items() if is_set]
    return words + [f"--{name}={show_value(value)}" for name, value in (options or {}).items()]


@contextmanager
def _at_least_a_handler() -> Iterator[None]:
    """Progress goes to the logger `aevlp`: to standard error, unless the program has its own way with logs."""
    log = logging.getLogger("aevlp")
    if log.hasHandlers():
        yield
        return
    handler = logging.StreamHandler()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
