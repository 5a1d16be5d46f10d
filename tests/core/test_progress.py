import io
import logging
import re

import pytest

from aevlp.core import progress as module
from aevlp.core.progress import duration, progress


@pytest.mark.parametrize(("seconds", "text"), [(4.4, "4 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_durations_are_said_as_people_do(seconds, text):
    assert duration(seconds) == text


def test_plain_lines_tell_rate_and_time_left(monkeypatch, caplog):
    now = iter([0.0, 5.0, 10.0, 15.0, 20.0])
    monkeypatch.setattr("aevlp.core.progress.time.monotonic", lambda: next(now))
    caplog.set_level(logging.INFO, logger="aevlp")
    with progress("scoring", 100) as advance:
        for _ in range(4):
            advance(25)
    assert [record.getMessage() for record in caplog.records] == ["scoring: 50 of 100 images, 5.0/s, 10 s left"]


def test_without_a_total_they_tell_what_is_done(monkeypatch, caplog):
    now = iter([0.0, 5.0, 10.0, 15.0, 20.0])
    monkeypatch.setattr("aevlp.core.progress.time.monotonic", lambda: next(now))
    caplog.set_level(logging.INFO, logger="aevlp")
    with progress("predicting", None) as advance:
        for _ in range(4):
            advance(25)
    expected = ["predicting: 50 images, 5.0/s", "predicting: 100 images, 5.0/s"]
    assert [record.getMessage() for record in caplog.records] == expected


@pytest.mark.parametrize(("total", "shown"), [(50, "20/50 images, "), (None, "20 images, ")])
def test_a_terminal_gets_a_bar(monkeypatch, total, shown):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress("predicting", total) as advance:
        advance(20)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "predicting" in plain
    assert shown in plain
    assert ("left" in plain) == (total is not None)


def test_only_the_first_of_several_processes_speaks(monkeypatch, caplog):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(module, "LINE_EVERY", 0.0)
    caplog.set_level(logging.INFO, logger="aevlp")
    with progress("scoring", 100) as advance:
        advance(25)
    assert caplog.records == []
