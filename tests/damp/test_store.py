import json
import os

import numpy as np
import pytest

from aevlp.damp.store import SHARD, StoreKey, ViewStore
from aevlp.damp.views import ViewSettings
from aevlp.errors import UserError

VIEWS = ViewSettings(size=16, grid=2, overlap=0.2, augment=True, seed=0)
KEY = StoreKey(teacher="t", mean=(0.5,) * 3, std=(0.5,) * 3, precision="fp32", views=VIEWS, images="i")
COUNT = SHARD + 10


def store_in(folder, key=KEY, count=COUNT):
    return ViewStore(folder, key, count=count, dimension=4)


def shard_of(store, shard, value):
    return np.full((len(store.rows(shard)), 5, 4), value, np.float16)


def test_what_is_written_is_read_back(tmp_path):
    store = store_in(tmp_path)
    assert store.missing(2) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    store.write(0, 0, shard_of(store, 0, 1.5))
    store.write(1, 1, shard_of(store, 1, 2.5))
    again = store_in(tmp_path)
    assert again.missing(2) == [(0, 1), (1, 0)]
    assert (again.read(0, 0) == 1.5).all()
    assert again.read(0, 0).shape == (SHARD, 5, 4)
    assert (again.read(1, 1) == 2.5).all()
    assert again.read(1, 1).shape == (10, 5, 4)
    assert isinstance(again.read(0, 0), np.memmap)


@pytest.mark.parametrize(
    "other",
    [
        StoreKey("t", KEY.mean, KEY.std, "bf16", VIEWS, "i"),
        StoreKey("other", KEY.mean, KEY.std, "fp32", VIEWS, "i"),
        StoreKey("t", (0.4, 0.5, 0.5), KEY.std, "fp32", VIEWS, "i"),
        StoreKey("t", KEY.mean, KEY.std, "fp32", ViewSettings(16, 3, 0.2, True, 0), "i"),
        StoreKey("t", KEY.mean, KEY.std, "fp32", ViewSettings(16, 2, 0.2, True, 1), "i"),
        StoreKey("t", KEY.mean, KEY.std, "fp32", VIEWS, "other"),
    ],
)
def test_other_weights_views_or_images_have_another_folder(tmp_path, other):
    assert store_in(tmp_path, other).folder != store_in(tmp_path).folder


def test_a_shard_of_the_wrong_shape_is_not_written(tmp_path):
    store = store_in(tmp_path)
    with pytest.raises(ValueError, match="a shard is float16"):
        store.write(0, 0, np.zeros((3, 5, 4), np.float16))
    assert len(store.missing(1)) == 2


@pytest.mark.parametrize("content", [b"", b"half of it", b"\x93NUMPY\x01\x00"])
def test_a_damaged_shard_is_named(tmp_path, content):
    store = store_in(tmp_path)
    store.write(0, 0, shard_of(store, 0, 1))
    store.path(0, 0).write_bytes(content)
    with pytest.raises(UserError, match=r"draw-000/00000\.npy: damaged shard .* remove it"):
        store_in(tmp_path).read(0, 0)


def test_a_manifest_that_says_something_else_is_refused(tmp_path):
    store = store_in(tmp_path)
    manifest = json.loads((store.folder / "manifest.json").read_text())
    assert manifest["key"]["teacher"] == "t"
    (store.folder / "manifest.json").write_text(json.dumps({**manifest, "images": 3}))
    with pytest.raises(UserError, match=r"manifest\.json"):
        store_in(tmp_path)


def test_writers_that_meet_leave_one_whole_shard(tmp_path):
    one, other = store_in(tmp_path), store_in(tmp_path)
    one.write(0, 0, shard_of(one, 0, 1))
    other.write(0, 0, shard_of(other, 0, 1))
    assert (store_in(tmp_path).read(0, 0) == 1).all()
    assert sorted(path.name for path in one.path(0, 0).parent.iterdir()) == ["00000.npy"]


def test_what_a_killed_writer_left_is_cleared_when_it_is_old(tmp_path):
    store = store_in(tmp_path)
    store.write(0, 0, shard_of(store, 0, 1))
    old, new = (store.path(0, 0).with_name(f".{name}.npy.1.part") for name in ("old", "new"))
    for part in (old, new):
        part.write_bytes(b"half of it")
    os.utime(old, (0, 0))
    store_in(tmp_path)
    assert not old.exists()
    assert new.exists()
