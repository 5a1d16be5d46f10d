"""TensorBoard, fed with the lines of `metrics.jsonl`, if the extra `tracking` is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from accelerate import Accelerator


@contextmanager
def track_to(run: Path, accelerator: Accelerator) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that takes a line of metrics; of several processes, only the first one's writes it."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield lambda line: None
        return
    if not accelerator.is_main_process:
        yield lambda line: None
        return
    with closing(SummaryWriter(str(run / "tensorboard"))) as writer:

        def add(line: dict[str, Any]) -> None:
            figures = {**line, **{f"pseudo_labels/{name}": value for name, value in (line["pseudo_labels"] or {}).items()}}
            for name, value in figures.items():
                if isinstance(value, float):
                    writer.add_scalar(name, value, line["epoch"])

        yield add
