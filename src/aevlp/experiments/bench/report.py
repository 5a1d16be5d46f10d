"""What a measurement says: a table for people, a record with everything for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Table

from aevlp.core.errors import UserError
from aevlp.experiments.bench.figures import FIGURES
from aevlp.experiments.bench.registry import Row

PACKAGES = ("aevlp", "torch", "transformers", "accelerate", "numpy", "pillow")


def overview() -> str:
    """The figures there are, a line each."""
    width = max(map(len, FIGURES))
    return "\n".join(
        f"{figure.name:<{width}}  {figure.summary}{' (takes long: only when named with --only)' if figure.takes_long else ''}"
        for figure in FIGURES.values()
    )


def table(measured: Mapping[str, list[Row]]) -> Table:
    """All rows; the value is the median of the rounds, with the smallest and the greatest beside it."""
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


def record(measured: Mapping[str, list[Row]]) -> dict[str, Any]:
    """The content of the JSON file."""
    import torch

    rows = [(name, row) for name, rows in measured.items() for row in rows]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "rows": [{"figure": name, **asdict(row), "goal": row.goal, "is_met": row.is_met} for name, row in rows],
    }


def check_free(out: Path) -> None:
    """Refuses a file that exists, or one that could not be written after all the measuring."""
    if out.exists():
        raise UserError(f"--out {out}: exists; remove it or choose another name")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise UserError(f"--out {out}: cannot be written (in {above}); choose another place")


def cpu_name() -> str:
    """The processor as the system calls it."""
    described = Path("/proc/cpuinfo")
    lines = described.read_text().splitlines() if described.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
