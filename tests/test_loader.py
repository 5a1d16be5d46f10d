import numpy as np
import torch
from PIL import Image

from aevlp.loader import Images, PlainOrder, TrainingOrder, batches


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


def test_batches_are_bytes_in_order(tmp_path):
    paths = []
    for number in range(5):
        picture = np.zeros((8, 8, 3), np.uint8)
        picture[:, :4] = number * 10
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
        paths.append(tmp_path / f"{number}.png")
    found = list(batches(paths, 8, PlainOrder(5), 2, workers=0))
    assert [index.tolist() for index, _ in found] == [[0, 1], [2, 3], [4]]
    assert all(pixels.dtype == torch.uint8 for _, pixels in found)
    assert found[1][1][1, 0, 0].tolist() == [30, 30, 30]
    plain, flipped = (Images(paths, 8)[3, flip][1] for flip in (False, True))
    assert torch.equal(flipped, plain.flip(1))
