import gc
import json
import os
import signal
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from aevlp.core.errors import UserError
from aevlp.damp.view_embeddings import ViewKey
from aevlp.damp.views import ViewSettings
from aevlp.store.embedding_store import SHARD, EmbeddingStore

VIEWS = ViewSettings(size=16, grid=2, overlap=0.2, augment=True, seed=0)
KEY = ViewKey(teacher="t", mean=(0.5,) * 3, std=(0.5,) * 3, precision="fp32", views=VIEWS, images="i")
COUNT = SHARD + 10
CHILD = get_context("fork")


def store_in(folder, key=KEY, count=COUNT):
    return EmbeddingStore(folder, key, count=count, dimension=4)


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
        ViewKey("t", KEY.mean, KEY.std, "bf16", VIEWS, "i"),
        ViewKey("other", KEY.mean, KEY.std, "fp32", VIEWS, "i"),
        ViewKey("t", (0.4, 0.5, 0.5), KEY.std, "fp32", VIEWS, "i"),
        ViewKey("t", KEY.mean, KEY.std, "fp32", ViewSettings(16, 3, 0.2, True, 0), "i"),
        ViewKey("t", KEY.mean, KEY.std, "fp32", ViewSettings(16, 2, 0.2, True, 1), "i"),
        ViewKey("t", KEY.mean, KEY.std, "fp32", VIEWS, "other"),
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
    with pytest.raises(UserError, match=r"draw-000/00000\.npy: damaged shard .* start again, and it will be computed again"):
        store.read(0, 0)


def test_a_shard_of_another_shape_or_precision_is_not_read(tmp_path):
    store = store_in(tmp_path)
    store.write(0, 0, shard_of(store, 0, 1))
    for wrong in (np.zeros((SHARD, 5, 3), np.float16), np.zeros((SHARD, 5, 4), np.float32)):
        with store.path(0, 0).open("wb") as file:
            np.save(file, wrong)
        with pytest.raises(UserError, match=r"00000\.npy: damaged shard .*; start again"):
            store.read(0, 0)


def test_a_shard_is_mapped_only_while_it_is_looked_at(tmp_path):
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not tell what is mapped")
    store = store_in(tmp_path)
    store.write(0, 0, shard_of(store, 0, 1))
    array = store.read(0, 0)
    assert str(store.path(0, 0)) in maps.read_text()
    del array
    gc.collect()
    assert str(store.path(0, 0)) not in maps.read_text()


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda content: flipped(content, len(content) // 2), "checksum differs"),
        (lambda content: flipped(content, 40), "checksum differs"),  # in the header
        (lambda content: flipped(content, len(content) - 1), "checksum differs"),  # in the checksum
        (lambda content: content[:-1], "10383 bytes instead of 10384"),
        (lambda content: content[:-16], "10368 bytes instead of 10384"),
        (lambda content: content + b"x", "10385 bytes instead of 10384"),
        (lambda content: b"", "empty"),
        (lambda content: b"hello", "not a shard"),
        (lambda content: content[:9], "not a shard"),
    ],
)
def test_damage_is_found(tmp_path, spoil, what):
    store = store_in(tmp_path)
    rng = np.random.default_rng(0)
    for draw in range(2):
        for shard in range(2):
            store.write(draw, shard, rng.normal(size=(len(store.rows(shard)), 5, 4)).astype(np.float16))
    assert store.damaged(2) == []
    path = store.path(1, 0)
    path.write_bytes(spoil(path.read_bytes()))
    assert what in (store.damage(1, 0) or "")
    assert store.damaged(1) == []
    assert store.damaged(3) == [(1, 0, store.damage(1, 0))]


def test_a_whole_shard_in_the_place_of_another_is_damage(tmp_path):
    store = store_in(tmp_path)
    for shard in range(2):
        store.write(0, shard, shard_of(store, shard, 1))
    store.path(0, 0).write_bytes(store.path(0, 1).read_bytes())
    assert store.damaged(1) == [(0, 0, "float16 (10, 5, 4) instead of (256, 5, 4)")]


def test_a_removed_shard_is_missing(tmp_path):
    store = store_in(tmp_path)
    store.write(0, 0, shard_of(store, 0, 1))
    assert store.has(0, 0)
    store.remove(0, 0)
    store.remove(0, 0)  # somebody else may have been faster
    assert not store.has(0, 0)
    assert store.missing(1) == [(0, 0), (0, 1)]


def claim_and_wait(root, ready):
    claim = store_in(root).claim(0, 1)
    assert claim is not None
    ready.set()
    time.sleep(600)


def test_a_killed_process_has_claimed_nothing(tmp_path):
    store, ready = store_in(tmp_path), CHILD.Event()
    child = CHILD.Process(target=claim_and_wait, args=(tmp_path, ready))
    child.start()
    assert ready.wait(60)
    assert store.claim(0, 1) is None
    ours = store.claim(0, 0)  # another shard is free
    assert ours is not None
    os.kill(child.pid or 0, signal.SIGKILL)
    child.join()
    theirs = store.claim(0, 1)
    assert theirs is not None
    store.write(0, 1, shard_of(store, 1, 1))
    for claim in (ours, theirs):
        claim.release()
    assert [path.name for path in (store.folder / "draw-000").iterdir()] == ["00001.npy"]


def test_opening_a_store_notes_the_time(tmp_path):
    manifest = store_in(tmp_path).folder / "manifest.json"
    os.utime(manifest, (0, 0))
    store_in(tmp_path)
    assert time.time() - manifest.stat().st_mtime < 3600


def read_alone(root, answer):
    os.chdir(root)
    if os.geteuid() == 0:
        os.setuid(65534)  # to root nothing is read-only
    try:
        (Path() / "mine").touch()
        answer.put("writable")
    except PermissionError:
        store = store_in(Path())
        answer.put((store.missing(1), float(store.read(0, 1).sum()), store.damaged(1)))


def test_a_complete_store_may_be_read_only(tmp_path):
    store = store_in(tmp_path)
    for shard in range(2):
        store.write(0, shard, shard_of(store, shard, 1))
    part = store.folder / "draw-000" / ".00000.npy.1.part"
    part.write_bytes(b"half of it")
    for old in (part, store.folder / "manifest.json"):
        os.utime(old, (0, 0))
    folders = [tmp_path, store.folder, store.folder / "draw-000"]
    for folder in folders:
        folder.chmod(0o555)
    answer = CHILD.Queue()
    child = CHILD.Process(target=read_alone, args=(tmp_path, answer))
    child.start()
    try:
        assert answer.get(timeout=60) == ([], 200.0, [])
        assert part.exists()
    finally:
        child.join()
        for folder in folders:
            folder.chmod(0o755)


def test_a_manifest_that_says_something_else_is_refused(tmp_path):
    store = store_in(tmp_path)
    manifest = json.loads((store.folder / "manifest.json").read_text())
    assert manifest["key"]["teacher"] == "t"
    (store.folder / "manifest.json").write_text(json.dumps({**manifest, "images": 3}))
    with pytest.raises(UserError, match=r"manifest\.json: does not describe this image set"):
        store_in(tmp_path)
    (store.folder / "manifest.json").write_text("half of")
    with pytest.raises(UserError, match=r"manifest\.json: does not describe this image set"):
        store_in(tmp_path)


def test_the_same_images_elsewhere_are_the_same_store(tmp_path):
    about = {"teacher": "demo", "data": "/data/\udcff"}  # a name that is not UTF-8
    store = EmbeddingStore(tmp_path, KEY, count=COUNT, dimension=4, about=about)
    assert b'"data": "/data/\xff"' in (store.folder / "manifest.json").read_bytes()
    other = EmbeddingStore(tmp_path, KEY, count=COUNT, dimension=4, about={"teacher": "a copy", "data": "/elsewhere"})
    assert other.folder == store.folder


def test_writers_that_meet_leave_one_whole_shard(tmp_path):
    one, other = store_in(tmp_path), store_in(tmp_path)
    one.write(0, 0, shard_of(one, 0, 1))
    other.write(0, 0, shard_of(other, 0, 1))
    assert (store_in(tmp_path).read(0, 0) == 1).all()
    assert sorted(path.name for path in one.path(0, 0).parent.iterdir()) == ["00000.npy"]


def test_what_a_killed_writer_left_is_cleared_when_it_is_old(tmp_path):
    store = store_in(tmp_path)
    store.write(0, 0, shard_of(store, 0, 1))
    names = [".old.npy.1.part", ".00000.lock", ".new.npy.1.part", ".00001.lock", ".mine.txt"]
    old, unlocked, new, locked, mine = (store.path(0, 0).with_name(name) for name in names)
    claim = store.claim(0, 1)
    assert claim is not None
    for path in (old, unlocked, new, mine):
        path.write_bytes(b"half of it")
    for path in (old, unlocked, locked, mine):
        os.utime(path, (0, 0))
    store_in(tmp_path)
    assert not old.exists()
    assert not unlocked.exists()
    assert all(path.exists() for path in (new, locked, mine))
    assert store.claim(0, 1) is None
