"""TensorBoard, fed with the lines of `metrics.jsonl`, if the extra `tracking` is installed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from accelerate import Accelerator

log = logging.getLogger("aevlp")


@contextmanager
def track_to(run: Path, accelerator: Accelerator) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that takes a line of metrics; of several processes, only the first one's writes it.

    A full disk or a folder that is gone does not end the training here: the checkpoint needs them too, and says so.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield lambda line: None
        return
    if not accelerator.is_main_process:
        yield lambda line: None
        return
    with _quiet_threads():
        writer = None
        with suppress(OSError):
            writer = SummaryWriter(str(run / "tensorboard"))

        def add(line: dict[str, Any]) -> None:
            figures = {**line, **{f"pseudo_labels/{name}": value for name, value in (line["pseudo_labels"] or {}).items()}}
            with suppress(OSError):
                for name, value in figures.items():
                    if isinstance(value, float) and writer is not None:
                        writer.add_scalar(name, value, line["epoch"])

        try:
            yield add
        finally:
            with suppress(OSError):
                if writer is not None:
                    writer.close()


@contextmanager
def _quiet_threads() -> Iterator[None]:
    """Within it, a thread that cannot write a file prints no traceback: TensorBoard writes in a thread and raises it again."""
    before = threading.excepthook

    def report(args: threading.ExceptHookArgs) -> None:
        if isinstance(args.exc_value, OSError):
            log.debug("TensorBoard: %s", args.exc_value)
        else:
            before(args)

    threading.excepthook = report
    try:
        yield
    finally:
        threading.excepthook = before
