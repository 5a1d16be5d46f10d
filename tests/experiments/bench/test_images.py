import numpy as np
from PIL import Image

from aevlp.data import read
from aevlp.data.dataset import single_positives
from aevlp.experiments.bench.images import patchwork, photo, write_images


def test_photos_are_as_heavy_as_those_of_a_camera(tmp_path):
    paths = write_images(tmp_path / "set", train=6)
    assert 40_000 < np.mean([path.stat().st_size for path in paths]) < 70_000
    with Image.open(paths[0]) as image:
        assert (image.format, image.size) == ("JPEG", (500, 375))
    assert len({path.read_bytes() for path in paths}) == 6


def test_a_written_set_can_be_trained_on_however_small(tmp_path):
    write_images(tmp_path / "set", train=20, val=3, width=16, height=12, picture=patchwork)
    table = read(tmp_path / "set", None)
    assert (table.splits.count("train"), table.splits.count("val")) == (20, 3)
    observed = single_positives(table.labels[:20])
    assert (observed == 1).any(axis=0).all()


def test_pictures_follow_from_the_generator():
    for picture in (photo, patchwork):
        one, same, other = (np.asarray(picture(np.random.default_rng(seed), 32, 24)) for seed in (0, 0, 1))
        assert (one == same).all()
        assert (one != other).any()
