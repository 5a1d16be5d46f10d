import numpy as np
import pytest
import torch
from accelerate import Accelerator
from PIL import Image

from aevlp.data.images import BadImage
from aevlp.loader import ImageBatches, PlainOrder, TrainingOrder


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
