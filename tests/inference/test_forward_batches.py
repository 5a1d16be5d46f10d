import threading

import pytest
import torch

from aevlp.inference.predictor import forward_batches
from aevlp.training.inputs import ReadBatch


def batch(number: int, images: int = 2) -> ReadBatch[int]:
    return ReadBatch([number] * images, torch.full((images, 4, 4, 3), number, dtype=torch.uint8), [])


def means(pixels: torch.Tensor) -> torch.Tensor:
    return pixels.float().mean((1, 2, 3))


@pytest.mark.parametrize("in_threads", [False, True])
def test_results_come_in_the_order_of_the_batches(in_threads):
    first_may_go_on = threading.Event()

    def compute(pixels):
        number = int(pixels[0, 0, 0, 0])
        if in_threads and number == 0:
            assert first_may_go_on.wait(10)  # a later batch is done before this one
        if number == 1:
            first_may_go_on.set()
        return means(pixels)

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = list(forward_batches((batch(number) for number in range(9)), compute, in_threads=in_threads))
    finally:
        torch.set_num_threads(threads)
    assert [(one.items, result.tolist()) for one, result in found] == [([n, n], [n, n]) for n in range(9)]


def test_each_thread_has_one_core_and_this_one_keeps_its_own():
    threads, seen = torch.get_num_threads(), set()

    def compute(pixels):
        seen.add((torch.get_num_threads(), threading.current_thread() is threading.main_thread()))
        return means(pixels)

    list(forward_batches((batch(number) for number in range(4)), compute, in_threads=True))
    assert seen == {(1, False)}
    assert torch.get_num_threads() == threads


def test_without_threads_it_is_all_done_in_this_one():
    seen = set()

    def compute(pixels):
        seen.add(threading.current_thread())
        return means(pixels)

    list(forward_batches((batch(number) for number in range(4)), compute, in_threads=False))
    assert seen == {threading.current_thread()}


@pytest.mark.parametrize("in_threads", [False, True])
def test_a_batch_without_images_is_not_computed(in_threads):
    def compute(pixels):
        assert len(pixels)
        return means(pixels)

    found = list(forward_batches([batch(1), batch(2, images=0), batch(3)], compute, in_threads=in_threads))
    assert [result.tolist() for _, result in found] == [[1, 1], [], [3, 3]]


@pytest.mark.parametrize("in_threads", [False, True])
def test_batches_are_taken_as_they_are_needed(in_threads):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield batch(taken)

    stream = forward_batches(endless(), means, in_threads=in_threads)
    for _ in range(5):
        next(stream)
    assert taken <= 5 + 2 * torch.get_num_threads()


@pytest.mark.parametrize("in_threads", [False, True])
def test_an_error_is_not_lost(in_threads):
    def compute(pixels):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(forward_batches([batch(1)], compute, in_threads=in_threads))
