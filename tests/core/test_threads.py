import threading

import pytest

from aevlp.core.threads import CHUNK, in_threads


def test_results_are_in_order_and_counted_from_the_calling_thread() -> None:
    counts: list[tuple[int, int]] = []
    squares = in_threads(lambda x: x * x, range(50), 4, lambda done: counts.append((done, threading.get_ident())))
    assert squares == [x * x for x in range(50)]
    assert counts == [(done, threading.get_ident()) for done in range(1, 51)]


@pytest.mark.parametrize("count", [0, 1, 7, 33, 10_001])
def test_every_item_is_computed_once_however_many_there_are(count: int) -> None:
    seen: list[int] = []

    def negative(item: int) -> int:
        seen.append(item)
        return -item

    found = in_threads(negative, range(count), 2)
    assert found == [-x for x in range(count)]
    assert sorted(seen) == list(range(count))


def test_few_items_are_shared_out_one_by_one() -> None:
    both = threading.Barrier(2, timeout=10)
    in_threads(lambda _: both.wait(), range(2), 2)  # breaks if one thread has both


def test_after_an_interrupt_what_is_queued_is_not_done() -> None:
    started: list[int] = []
    release = threading.Event()

    def work(item: int) -> None:
        started.append(item)
        if item >= CHUNK:  # the first call is done at once, and interrupted
            release.wait(10)

    def interrupt(done: int) -> None:
        threading.Timer(0.2, release.set).start()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, range(1000), 1, interrupt)
    assert len(started) <= 3 * CHUNK  # those of the calls that had begun
