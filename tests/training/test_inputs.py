import numpy as np
import pytest
import torch
from accelerate import Accelerator
from PIL import Image

from aevlp.data.images import BadImage, pixels_of
from aevlp.training.inputs import AHEAD, ImageBatches, PlainOrder, TrainingOrder, read_ahead


def test_an_epoch_shows_every_image_once_half_of_them_flipped():
    order = TrainingOrder(1000, seed=0)
    first = list(order)
    assert sorted(index for index, _ in first) == list(range(1000))
    assert 450 < sum(flipped for _, flipped in first) < 550
    assert list(order) == first
    order.epoch = 2
    second = list(order)
    assert second != first
    assert sum(a[1] != b[1] for a, b in zip(sorted(first), sorted(second), strict=True)) > 400  # flips are drawn anew
    assert list(TrainingOrder(1000, seed=1)) != first


@pytest.fixture
def paths(tmp_path):
    found = []
    for number in range(11):
        picture = np.zeros((8, 8, 3), np.uint8)
        picture[:, :4] = number * 10
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
        found.append(tmp_path / f"{number}.png")
    return found


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_are_bytes_in_order_each_time(paths, workers):
    images = ImageBatches(paths, 8, PlainOrder(11), 2, workers, Accelerator(cpu=True))
    for _ in range(2):
        found = list(images)
        assert [index.tolist() for index, _ in found] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]
        assert all(pixels.dtype == torch.uint8 for _, pixels in found)
        assert [pixels[:, 0, 0, 0].tolist() for _, pixels in found] == [[0, 10], [20, 30], [40, 50], [60, 70], [80, 90], [100]]


def test_images_are_flipped_as_drawn_and_every_epoch_is_another(paths):
    order = TrainingOrder(11, seed=0)
    images = ImageBatches(paths, 8, order, 4, 2, Accelerator(cpu=True))
    for epoch in (1, 2):
        order.epoch = epoch
        index, pixels = (torch.cat(parts) for parts in zip(*images, strict=True))
        for (expected, flipped), found, view in zip(order, index.tolist(), pixels, strict=True):
            assert found == expected
            assert (view[0, 0, 0], view[0, -1, 0]) == ((0, 10 * found) if flipped else (10 * found, 0))


def test_an_image_that_cannot_be_read_is_named(paths):
    paths[7].write_bytes(b"no image")
    with pytest.raises(BadImage, match=r"7\.png"):
        list(ImageBatches(paths, 8, PlainOrder(11), 2, 2, Accelerator(cpu=True)))


def test_reading_ahead_tells_what_cannot_be_read_and_goes_on(paths):
    paths[3].write_bytes(b"no image")
    paths[4].unlink()
    batches = [paths[:3], paths[3:5], [], paths[5:7]]
    found = list(read_ahead(batches, lambda path: pixels_of(path, 8), 8, 2))
    assert [batch.items for batch in found] == [paths[:3], [], [], paths[5:7]]
    assert [batch.pixels[:, 0, 0, 0].tolist() for batch in found] == [[0, 10, 20], [], [], [50, 60]]
    assert [(path, error.reason) for path, error in found[1].bad] == [
        (paths[3], "not an image, or of an unknown format"),
        (paths[4], "no such file"),
    ]
    assert not found[0].bad


def test_an_error_that_is_no_bad_image_is_an_error(paths):
    def read(path):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(read_ahead([paths], read, 8, 2))


def test_batches_are_taken_as_they_are_needed(paths):
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield paths[:2]

    stream = read_ahead(endless(), lambda path: pixels_of(path, 8), 8, 2)
    for _ in range(5):
        next(stream)
    assert taken <= 5 + AHEAD
