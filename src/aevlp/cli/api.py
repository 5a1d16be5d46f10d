"""`aevlp.train` and `aevlp.label`: the commands as functions, with the same names, defaults, files and refusals."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from aevlp.cli.train import RESUME_OR_OVERWRITE
from aevlp.config.config import Config
from aevlp.config.defaults import choose_defaults, foreign_options
from aevlp.config.run_options import all_options
from aevlp.core.errors import OptionError, UserError, did_you_mean
from aevlp.core.options import Option, options_of, typed_value
from aevlp.core.remote import local_path, location
from aevlp.experiments.run_result import RunResult
from aevlp.experiments.train import train_run
from aevlp.inference.completion.label import label_images
from aevlp.inference.completion.result import Completion
from aevlp.inference.options import LabelOptions
from aevlp.training.run_folder import RunFolder, open_run

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
    resume: bool | Literal["auto"] = False,
    overwrite: bool = False,
    options: OptionValues | None = None,
) -> RunResult:
    """Train into the run folder `out`, as `aevlp train DATA --out RUN` does, and return the result.

    `resume="auto"` continues the run in `out` if there is one, which must have this configuration, and else starts it.
    An argument that is None has the recipe's default. Raises `aevlp.UserError` where the command would refuse.
    """
    if resume and overwrite:
        raise UserError(RESUME_OR_OVERWRITE)
    named = {
        **{"recipe": recipe, "method": method, "teacher": teacher, "backbone": backbone, "epochs": epochs, "seed": seed},
        **{"observe": observe, "zeros": zeros, "device": device, "store": store},
    }
    folder = RunFolder(local_path(out))
    resumed = folder.config if resume is True and folder.config.is_file() else None
    with _logging():
        config = _config(_given(named, options), resumed)
        result = RunResult(train_run(config, location(data), folder, resume=resume, overwrite=overwrite), folder)
        for warning in result.warnings:
            logging.getLogger("aevlp").warning("warning: %s", warning)
        return result


def label(
    data: PathName,
    out: PathName,
    *,
    run: PathName | None = None,
    folds: int | None = None,
    witness: Literal["teacher", "model", "both"] | None = None,
    min_precision: float | None = None,
    min_confidence: float | None = None,
    max_lost: float | None = None,
    out_format: str | None = None,
    recipe: PathName | None = None,
    teacher: PathName | None = None,
    observe: Literal["given", "single"] | None = None,
    zeros: Literal["unknown", "negative"] | None = None,
    device: Literal["auto", "cpu", "cuda", "mps"] | None = None,
    store: PathName | None = None,
    options: OptionValues | None = None,
) -> Completion:
    """Complete the labels of an image set and write them to `out`, as `aevlp label DATA --out FILE` does.

    The result iterates over the images; `to_pandas()` makes a table of it. An argument that is None has the command's default.
    Raises `aevlp.UserError` where the command would refuse.
    """
    if run is not None and recipe is None:
        recipe = open_run(Path(run)).config
    own = {
        **{"run": run, "folds": folds, "witness": witness, "min-precision": min_precision, "out-format": out_format},
        **{"min-confidence": min_confidence, "max-lost": max_lost, "recipe": recipe},
        **{"teacher": teacher, "observe": observe, "zeros": zeros, "device": device, "store": store},
    }
    given, known = _given(own, options), {option.flag: option for option in options_of("", LabelOptions)}
    with _logging():
        config = _config({name: value for name, value in given.items() if name not in known})
        chosen = {option.key: _typed(option, given[name]) for name, option in known.items() if name in given}
        return label_images(config, location(data), local_path(out), LabelOptions(**chosen))


def _given(named: Mapping[str, Any], options: OptionValues | None) -> dict[str, Any]:
    """Return the arguments that were given, by their names on the command line without the dashes."""
    return {**{name: value for name, value in named.items() if value is not None}, **(options or {})}


def _config(given: Mapping[str, Any], resumed: Path | None = None) -> Config:
    """Return the configuration for arguments by their names on the command line, without the dashes."""
    by_name = {name.removeprefix("--"): key for key, option in all_options().items() for name in option.names}
    said = {by_name.get(name, name): fspath(value) if isinstance(value, PathLike) else value for name, value in given.items()}
    defaults = choose_defaults(said, resumed)
    known, foreign = {option.key: option for option in defaults.options}, foreign_options([defaults.method])
    values: dict[str, Any] = {}
    for key, value in said.items():
        if key in ("recipe", "method"):
            continue
        if key not in known:
            names = [name for option in known.values() for name in option.names]
            raise UserError(foreign.get(f"--{key}", f"unknown option --{key}{did_you_mean(f'--{key}', names)}"))
        values[key] = _typed(known[key], value)
    return defaults.config(values)


def _typed(option: Option, value: Any) -> Any:
    """Return the value of an option, checked to be of its type."""
    try:
        return typed_value(value, option.kind)
    except ValueError:
        raise OptionError(option.flag, f"must be {option.values}, not {value!r}") from None


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
