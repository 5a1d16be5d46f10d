"""`aevlp.train` and `aevlp.label`: the commands as functions, with the same names, defaults, files and refusals."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from aevlp.cli.train import RESUME_OR_OVERWRITE
from aevlp.config.config import Config
from aevlp.config.defaults import Defaults, choose_defaults, foreign_options
from aevlp.config.options import all_options
from aevlp.core.errors import OptionError, UserError, did_you_mean
from aevlp.core.options import show_value, typed_value
from aevlp.experiments.run_result import RunResult
from aevlp.experiments.train import train_run
from aevlp.inference.completion.records import Completed
from aevlp.training.run_folder import RunFolder

PathName = str | PathLike[str]
OptionValues = Mapping[str, str | int | float | bool | None]
"""Any other option of the command: its name without the dashes -> its value, such as {"damp.grid": 5}."""


def train(
    data: PathName,
    out: PathName,
    *,
    recipe: PathName | None = None,
    method: str | None = None,
    teacher: PathName | None = None,
    backbone: PathName | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    observe: Literal["given", "single"] | None = None,
    zeros: Literal["unknown", "negative"] | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] | None = None,
    store: PathName | None = None,
    resume: bool = False,
    overwrite: bool = False,
    options: OptionValues | None = None,
) -> RunResult:
    """Train into the run folder `out`, as `aevlp train DATA --out RUN` does, and return the result.

    An argument that is None has the recipe's default. Raises `aevlp.UserError` where the command would refuse.
    """
    if resume and overwrite:
        raise UserError(RESUME_OR_OVERWRITE)
    named = {
        **{"recipe": recipe, "method": method, "teacher": teacher, "backbone": backbone, "epochs": epochs, "seed": seed},
        **{"observe": observe, "zeros": zeros, "device": device, "store": store},
    }
    folder = RunFolder(Path(out))
    resumed = folder.config if resume and folder.config.is_file() else None
    with _logging():
        config = _config(named, options, resumed)
        return RunResult(train_run(config, Path(data), folder, resume=resume, overwrite=overwrite), folder)


def label(
    data: PathName,
    out: PathName,
    *,
    run: PathName | None = None,
    folds: int | None = None,
    witness: Literal["teacher", "model", "both"] | None = None,
    min_precision: float | None = None,
    min_negative_precision: float | None = None,
    out_format: str | None = None,
    recipe: PathName | None = None,
    teacher: PathName | None = None,
    observe: Literal["given", "single"] | None = None,
    zeros: Literal["unknown", "negative"] | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] | None = None,
    store: PathName | None = None,
    options: OptionValues | None = None,
) -> Iterator[Completed]:
    """Every image with its labels completed, after writing them to `out` as `aevlp label DATA --out FILE` does.

    What is None has the command's default. Raises `aevlp.UserError` where the command would refuse.
    """
    from aevlp.cli.label import completed

    named = {
        **{"out": out, "run": run, "folds": folds, "witness": witness, "min-precision": min_precision},
        **{"min-negative-precision": min_negative_precision, "out-format": out_format, "recipe": recipe, "teacher": teacher},
        **{"observe": observe, "zeros": zeros, "device": device, "store": store},
    }
    with _logging():
        return completed(_words(data, named, {}, options))[0].records()


def _words(data: PathName, named: Mapping[str, Any], flags: Mapping[str, bool], options: OptionValues | None) -> list[str]:
    """What one would type."""
    words = [fspath(data)]
    for name, value in named.items():
        if value is not None:
            words.append(f"--{name}={fspath(value) if isinstance(value, PathLike) else value}")
    words += [f"--{name}" for name, is_set in flags.items() if is_set]
    return words + [f"--{name}={show_value(value)}" for name, value in (options or {}).items()]


def _config(named: Mapping[str, Any], options: OptionValues | None, resumed: Path | None = None) -> Config:
    """Return the configuration for arguments by their names on the command line, without the dashes; None: not given."""
    given = {name: fspath(value) if isinstance(value, PathLike) else value for name, value in named.items() if value is not None}
    given.update(options or {})
    by_name = {name.removeprefix("--"): key for key, option in all_options().items() for name in option.names}
    said = {by_name.get(name, name): value for name, value in given.items()}
    defaults = choose_defaults(said, resumed)
    return defaults.config(_typed(said, defaults))


def _typed(said: Mapping[str, Any], defaults: Defaults) -> dict[str, Any]:
    """Return the values that the user `said`, checked to be values of the method's options."""
    known = {option.key: option for option in defaults.options}
    foreign = foreign_options([defaults.method])
    values: dict[str, Any] = {}
    for key, value in said.items():
        if key in ("recipe", "method"):
            continue
        if key not in known:
            names = [name for option in known.values() for name in option.names]
            raise UserError(foreign.get(f"--{key}", f"unknown option --{key}{did_you_mean(f'--{key}', names)}"))
        try:
            values[key] = typed_value(value, known[key].kind)
        except ValueError:
            raise OptionError(key, f"must be {known[key].values}, not {value!r}") from None
    return values


@contextmanager
def _logging() -> Iterator[None]:
    """Send progress, which goes to the logger `aevlp`, to standard error, unless the program handles logs itself."""
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
