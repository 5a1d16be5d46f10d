import logging

import pytest

from aevlp import progress as module
from aevlp.progress import duration, progress


@pytest.mark.parametrize(("seconds", "text"), [(4.4, "4 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_durations_are_said_as_people_do(seconds, text):
    assert duration(seconds) == text


def test_plain_lines_tell_rate_and_time_left(monkeypatch, caplog):
    now = iter([0.0, 5.0, 10.0, 15.0, 20.0])
    monkeypatch.setattr("aevlp.progress.time.monotonic", lambda: next(now))
    caplog.set_level(logging.INFO, logger="aevlp")
    with progress("scoring", 100) as advance:
        for _ in range(4):
            advance(25)
    assert [record.getMessage() for record in caplog.records] == ["scoring: 50 of 100 images, 5.0/s, 10 s left"]


def test_only_the_first_of_several_processes_speaks(monkeypatch, caplog):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(module, "LINE_EVERY", 0.0)
    caplog.set_level(logging.INFO, logger="aevlp")
    with progress("scoring", 100) as advance:
        advance(25)
    assert caplog.records == []
