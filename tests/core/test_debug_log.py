import logging
import sys
import warnings
from itertools import count

import pytest

from aevlp.core import debug_log
from aevlp.core.debug_log import to_debug_log

LIBRARY = "a-library"


def test_messages_and_warnings_go_to_the_debug_log_and_only_within(caplog):
    library, own = logging.getLogger(LIBRARY), logging.Handler()
    library.addHandler(own)
    try:
        with caplog.at_level(logging.DEBUG, "aevlp"), to_debug_log(LIBRARY):
            library.warning("a message")
            warnings.warn("a warning", stacklevel=1)
        assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
            (logging.DEBUG, f"{LIBRARY}: a message"),
            (logging.DEBUG, "a warning"),
        ]
        assert (library.handlers, library.propagate) == ([own], True)
    finally:
        library.removeHandler(own)


class InterruptAtLine:
    """A trace that raises an interrupt before the line of this number, counted over those that begin and end the block."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename not in (debug_log.__file__, warnings.__file__):
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def test_an_interrupt_at_any_line_stays_an_interrupt():
    library, entered, before = logging.getLogger(LIBRARY), [], sys.gettrace()
    for number in count():
        handlers, propagate, filters = library.handlers, library.propagate, warnings.filters
        was_entered = False
        try:
            sys.settrace(InterruptAtLine(number))
            with to_debug_log(LIBRARY):
                was_entered = True
        except KeyboardInterrupt:
            entered.append(was_entered)
            if not was_entered:
                assert (library.handlers, library.propagate, warnings.filters) == (handlers, propagate, filters)
            library.handlers, library.propagate = handlers, propagate
        else:
            break
        finally:
            sys.settrace(before)
    assert set(entered) == {True, False}  # there were interrupts before the block and after it


def test_an_error_within_is_passed_on():
    with pytest.raises(ValueError, match="wrong"), to_debug_log(LIBRARY):
        raise ValueError("wrong")
