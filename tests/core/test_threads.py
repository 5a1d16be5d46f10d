import threading

import pytest

from aevlp.core.threads import in_threads


def test_results_are_in_order_and_counted_from_the_calling_thread() -> None:
    counts: list[tuple[int, int]] = []
    squares = in_threads(lambda x: x * x, range(50), 4, lambda done: counts.append((done, threading.get_ident())))
    assert squares == [x * x for x in range(50)]
    assert counts == [(done, threading.get_ident()) for done in range(1, 51)]


def test_after_an_interrupt_what_is_queued_is_not_done() -> None:
    started: list[int] = []
    release = threading.Event()

    def work(item: int) -> None:
        started.append(item)
        if item > 0:
            release.wait(10)

    def interrupt(done: int) -> None:
        threading.Timer(0.2, release.set).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(1000), 1, interrupt)
    assert len(started) < 5
