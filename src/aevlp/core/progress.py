"""Progress of long work: a bar with rate and time left on a terminal, plain lines elsewhere."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from aevlp.core.processes import is_first_process

LINE_EVERY = 10.0  # seconds, when not on a terminal
log = logging.getLogger("aevlp")


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of items just finished. Of several processes, only the first shows its progress.

    With `total` None, it shows how many are done and how fast, but no time left.
    """
    if is_first_process() and sys.stderr.isatty():
        with _bar(what, total) as advance:
            yield advance
        return

    started = last = time.monotonic()
    done = 0

    def line(count: int) -> None:
        nonlocal done, last
        done += count
        now = time.monotonic()
        if not is_first_process() or now - last < LINE_EVERY or (total is not None and done >= total):
            return
        last = now
        rate = done / (now - started)
        if total is None:
            log.info("%s: %d images, %.1f/s", what, done, rate)
        else:
            log.info("%s: %d of %d images, %.1f/s, %s left", what, done, total, rate, duration((total - done) / rate))

    yield line


@contextmanager
def _bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    rate = "images, {task.fields[rate]:.1f}/s"
    columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
    if total is None:
        columns += [TextColumn("{task.completed:.0f}"), TextColumn(rate)]
    else:
        columns += [MofNCompleteColumn(), TextColumn(f"{rate},"), TimeRemainingColumn(), TextColumn("left")]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, rate=0.0)

        def advance(count: int) -> None:
            bar.update(task, advance=count, rate=bar.tasks[0].speed or 0.0)

        yield advance


def duration(seconds: float) -> str:
    """Return seconds as a text: 12 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
