"""Measuring: which figures, one after the other, each in a folder of its own that is removed afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aevlp.core.errors import UserError, did_you_mean
from aevlp.core.processes import EngineOptions
from aevlp.experiments.bench.figures import FIGURES
from aevlp.experiments.bench.registry import Bench, Figure, Row

log = logging.getLogger("aevlp.experiments.bench")


def chosen(only: str | None) -> list[Figure]:
    """The figures that `--only` names, or all that do not take long."""
    if only is None:
        return [figure for figure in FIGURES.values() if not figure.takes_long]
    names = list(dict.fromkeys(only.split(",")))
    for name in names:
        if name not in FIGURES:
            known = ", ".join(FIGURES)
            raise UserError(f"--only {name}: no such figure{did_you_mean(name, FIGURES)}; known are {known}")
    return [FIGURES[name] for name in names]


def measure(figures: Sequence[Figure], engine: EngineOptions, repeats: int | None) -> Mapping[str, list[Row]]:
    """Name -> rows of each figure; `repeats`: rounds, None: as many as the figure's own setting says."""
    from aevlp.core.engine import make_accelerator

    accelerator = make_accelerator(engine)
    rounds = {} if repeats is None else {"repeats": repeats}
    rows = {}
    with _own_voice(), TemporaryDirectory(prefix="aevlp-bench-") as folder:
        for figure in figures:
            log.info("%s: preparing", figure.name)
            with TemporaryDirectory(dir=folder) as own:
                rows[figure.name] = figure.measure(Bench(Path(own), accelerator), **rounds)
    return rows


@contextmanager
def _own_voice() -> Iterator[None]:
    """While it lasts, the trainings and scorings that are measured say nothing but warnings."""
    product = logging.getLogger("aevlp")
    before = product.level, log.level
    product.setLevel(logging.WARNING)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        product.setLevel(before[0])
        log.setLevel(before[1])
