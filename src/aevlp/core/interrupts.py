"""Interrupts (Ctrl-C) that Python would drop."""

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SOON = 0.05  # seconds


@contextmanager
def no_interrupt_is_lost() -> Iterator[None]:
    """Within it, an interrupt that comes while an object is finalized, where Python prints and drops it, comes once more.

    Long calls of other libraries often end in such a moment: a large collection of garbage, for example.
    """
    before, timers = sys.unraisablehook, list[threading.Timer]()

    def again(unraisable: "sys.UnraisableHookArgs") -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        timers.append(threading.Timer(SOON, _interrupt))  # not here, where it would be dropped too
        timers[-1].daemon = True
        timers[-1].start()

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in timers:
            timer.cancel()


def _interrupt() -> None:
    """Send the main thread an interrupt that also ends what it waits for."""
    if sys.platform == "win32":
        _thread.interrupt_main()
        return
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)
