"""Measure figures one after the other, and report them: a table for people, a record with everything for programs."""

import logging
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich.table import Table

from aevlp.core.engine import make_accelerator
from aevlp.core.errors import UserError
from aevlp.core.processes import EngineOptions
from aevlp.core.tables import named_lines
from aevlp.experiments.bench.figures import FIGURES
from aevlp.experiments.bench.measurement import Bench, Measurement, SpeedFigure

PACKAGES = ("aevlp", "torch", "transformers", "accelerate", "numpy", "pillow")
log = logging.getLogger("aevlp.experiments.bench")


def figures_named(only: str | None) -> list[SpeedFigure]:
    """Return the figures that `--only` names, or all that do not take long."""
    if only is None:
        return [figure for _, figure in sorted(FIGURES.items()) if not figure.takes_long]
    return [FIGURES.find(name, f"--only {name}") for name in dict.fromkeys(only.split(","))]


def measure(figures: Sequence[SpeedFigure], engine: EngineOptions, repeats: int | None) -> Mapping[str, list[Measurement]]:
    """Return the measurements of each figure by its name; `repeats`: rounds, None: the figure's own default."""
    accelerator = make_accelerator(engine)
    rounds = {} if repeats is None else {"repeats": repeats}
    measured = {}
    with _only_own_messages(), TemporaryDirectory(prefix="aevlp-bench-") as folder:
        for figure in figures:
            log.info("%s: preparing", figure.name)
            with TemporaryDirectory(dir=folder) as own:
                measured[figure.name] = figure.measure(Bench(Path(own), accelerator), **rounds)
    return measured


@contextmanager
def _only_own_messages() -> Iterator[None]:
    """Silence the measured trainings and scorings within the context, except for warnings."""
    product = logging.getLogger("aevlp")
    before = product.level, log.level
    product.setLevel(logging.WARNING)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        product.setLevel(before[0])
        log.setLevel(before[1])


def overview() -> str:
    """Return the figures with their summaries, a line each."""
    long = " (takes long: only when named with --only)"
    return named_lines(
        (figure.name, figure.summary + (long if figure.takes_long else "")) for _, figure in sorted(FIGURES.items())
    )


def table(measured: Mapping[str, list[Measurement]]) -> Table:
    """Return a row per measurement: the median of the rounds, with the smallest and the greatest beside it."""
    shown = Table("figure", "what / against what", title="aevlp bench", title_justify="left")
    for column in ("value", "spread", "goal", "absolute"):
        shown.add_column(column, justify="left" if column == "absolute" else "right")
    for name, rows in measured.items():
        for row in rows:
            value = _number(row.value) + ("" if row.unit == "ratio" else f" {row.unit}")
            spread = f"{_number(row.low)} .. {_number(row.high)}"
            goal = f"{row.goal}: {'met' if row.is_met else 'missed'}" if row.goal else ""
            absolute = "\n".join(f"{_number(value)} {unit}" for unit, value in row.absolute.items())
            shown.add_row(name, row.what + (f"\n/ {row.against}" if row.against else ""), value, spread, goal, absolute)
    return shown


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def record(measured: Mapping[str, list[Measurement]]) -> dict[str, Any]:
    """Return the content of the JSON file."""
    rows = [(name, row) for name, rows in measured.items() for row in rows]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "rows": [{"figure": name, **asdict(row), "goal": row.goal, "is_met": row.is_met} for name, row in rows],
    }


def check_output(out: Path) -> None:
    """Refuse a file that exists, or that could not be written once everything is measured."""
    if out.exists():
        raise UserError(f"--out {out}: exists; remove it or choose another name")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise UserError(f"--out {out}: cannot be written (in {above}); choose another place")


def cpu_name() -> str:
    """Return the name of the processor, as the system gives it."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
