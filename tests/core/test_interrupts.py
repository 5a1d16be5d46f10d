import signal
import sys
import time
from typing import Any

import pytest

from aevlp.core.interrupts import no_interrupt_is_lost


class Finalized:
    def __init__(self, deed):
        self.deed = deed

    def __del__(self):
        self.deed()


def test_an_interrupt_while_an_object_is_finalized_comes_once_more(capsys):
    before = sys.unraisablehook

    def work():
        thing = Finalized(lambda: signal.raise_signal(signal.SIGINT))
        del thing
        time.sleep(60)  # what the interrupt ends

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), no_interrupt_is_lost():
        work()
    assert time.monotonic() - started < 50
    assert sys.unraisablehook is before
    assert capsys.readouterr().err == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_errors_of_finalized_objects_are_shown_as_before(monkeypatch):
    shown: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    with no_interrupt_is_lost():
        thing = Finalized(lambda: 1 / 0)
        del thing
    assert [each.exc_type for each in shown] == [ZeroDivisionError]
