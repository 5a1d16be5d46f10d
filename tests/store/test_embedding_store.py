import fcntl
import gc
import io
import json
import os
import signal
import time
from hashlib import blake2b
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from aevlp.core.errors import UserError
from aevlp.damp.view_embeddings import ViewKey
from aevlp.damp.views import ViewSettings
from aevlp.store.embedding_store import EmbeddingStore, draw_folder, read_uses
from aevlp.store.packs import PACK, chunks_of, damage_of

VIEWS = ViewSettings(size=16, grid=2, overlap=0.2, augment=True, seed=0)
KEY = ViewKey(teacher="t", mean=(0.5,) * 3, std=(0.5,) * 3, precision="fp32", views=VIEWS)
CHILD = get_context("fork")


def digests_of(count, first=0):
    """Digests as they come, among them some that end with null bytes."""
    rng = np.random.default_rng(7)
    found = np.frombuffer(rng.bytes(16 * (first + count)), "S16").copy()
    found[::5] = [digest[:14] for digest in found[::5]]
    return found[first:]


def store_in(folder, key=KEY):
    return EmbeddingStore(folder, key, dimension=4)


def values_of(digests, draw=0):
    """Embeddings that tell an image and a draw from all others."""
    seeds = [int.from_bytes(digest[:4], "little") + draw for digest in digests]
    return np.stack([np.random.default_rng(seed).normal(size=(5, 4)) for seed in seeds]).astype(np.float16)


def write(store, digests, draw=0):
    for rows in chunks_of(len(digests)):
        part = digests[rows.start : rows.stop]
        store.write(draw, part, values_of(part, draw))


def packs_in(store, draw=0):
    return sorted(draw_folder(store.folder, draw).glob("*.npy"))


def test_what_is_written_is_read_back_in_any_order(tmp_path):
    digests = digests_of(PACK + 10)
    write(store_in(tmp_path), digests)
    store = store_in(tmp_path)
    assert len(packs_in(store)) == 2
    assert not store.missing(0, digests).any()
    assert store.missing(1, digests).all()
    some = np.random.default_rng(0).permutation(len(digests))[:50]
    for rows in (np.arange(len(digests)), some, np.array([3, 3, 2]), np.array([7])):
        assert np.array_equal(store.read(0, digests[rows]), values_of(digests[rows]))
    assert store.read(0, digests[:0]).shape == (0, 5, 4)
    assert store.missing(0, digests_of(3, PACK + 10)).all()


def test_packs_of_other_processes_are_found_when_asked_again(tmp_path):
    digests = digests_of(300)
    mine, other = store_in(tmp_path), store_in(tmp_path)
    for first in range(0, 300, 7):  # many small packs, as of one photo a day
        write(other, digests[first : first + 7])
        mine.index(0).refresh()
        assert mine.missing(0, digests).sum() == max(0, 293 - first)
    assert np.array_equal(mine.read(0, digests), values_of(digests))


@pytest.mark.parametrize(
    "other",
    [
        ViewKey("t", KEY.mean, KEY.std, "bf16", VIEWS),
        ViewKey("other", KEY.mean, KEY.std, "fp32", VIEWS),
        ViewKey("t", (0.4, 0.5, 0.5), KEY.std, "fp32", VIEWS),
        ViewKey("t", KEY.mean, KEY.std, "fp32", ViewSettings(16, 3, 0.2, True, 0)),
        ViewKey("t", KEY.mean, KEY.std, "fp32", ViewSettings(16, 2, 0.2, True, 1)),
    ],
)
def test_other_weights_or_views_have_another_folder(tmp_path, other):
    assert store_in(tmp_path, other).folder != store_in(tmp_path).folder


def test_a_pack_of_the_wrong_shape_is_not_written(tmp_path):
    store = store_in(tmp_path)
    with pytest.raises(ValueError, match="a pack is float16"):
        store.write(0, digests_of(3), np.zeros((4, 5, 4), np.float16))
    with pytest.raises(ValueError, match="a pack is float16"):
        store.write(0, digests_of(3), np.zeros((3, 5, 4), np.float32))
    assert packs_in(store) == []


def test_images_that_are_not_there_are_counted(tmp_path):
    store = store_in(tmp_path)
    write(store, digests_of(3))
    with pytest.raises(UserError, match=r"draw-000: 2 images are gone; start again, and they will be computed again"):
        store.read(0, digests_of(5))


def test_a_pack_that_vanishes_is_named(tmp_path):
    store = store_in(tmp_path)
    write(store, digests_of(3))
    assert not store.missing(0, digests_of(3)).any()
    (pack,) = packs_in(store)
    pack.unlink()
    with pytest.raises(UserError, match=rf"{pack.name}: damaged \(.*\); start again, and it will be computed again"):
        store.read(0, digests_of(3))


def test_a_pack_is_mapped_only_while_it_is_looked_at(tmp_path):
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not tell what is mapped")
    store, digests = store_in(tmp_path), digests_of(10)
    write(store, digests)
    array = store.read(0, digests[2:7])
    (pack,) = packs_in(store)
    assert str(pack) in maps.read_text()
    array[0] = 0  # torch wants it writable; it is never written back
    del array
    gc.collect()
    assert str(pack) not in maps.read_text()
    assert np.array_equal(store.read(0, digests), values_of(digests))


def flipped(content, at):
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


SIZE = 128 + 10 * (5 * 4 * 2 + 16) + 16  # of a pack of ten images


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda content: flipped(content, len(content) // 2), "checksum differs"),
        (lambda content: flipped(content, 40), "checksum differs"),  # in the header
        (lambda content: flipped(content, len(content) - 30), "checksum differs"),  # in a digest
        (lambda content: flipped(content, len(content) - 1), "checksum differs"),  # in the checksum
        (lambda content: content[:-1], f"{SIZE - 1} bytes are not a whole pack"),
        (lambda content: content + b"x", f"{SIZE + 1} bytes are not a whole pack"),
        (lambda content: content[: -(5 * 4 * 2 + 16)], "checksum differs"),  # the size of a smaller pack
        (lambda content: b"", "empty"),
        (lambda content: b"hello", "5 bytes are not a whole pack"),
    ],
)
def test_damage_is_found(tmp_path, spoil, what):
    store, digests = store_in(tmp_path), digests_of(10)
    for draw in range(2):
        write(store, digests, draw)
    assert [store.damaged(draw, digests) for draw in range(3)] == [{}, {}, {}]
    (path,) = packs_in(store, 1)
    path.write_bytes(spoil(path.read_bytes()))
    again = store_in(tmp_path)
    assert again.damaged(0, digests) == {}
    assert again.damaged(1, digests) == {path: what} or again.missing(1, digests).all()
    assert damage_of(path, 1, (5, 4)) == what


def test_a_whole_pack_in_the_place_of_another_is_damage(tmp_path):
    store = store_in(tmp_path)
    write(store, digests_of(PACK + 10))
    one, other = packs_in(store)
    one.write_bytes(other.read_bytes())
    assert damage_of(one, 0, (5, 4)) == "holds other images than its name says"
    assert damage_of(other, 0, (5, 4)) is None
    assert damage_of(other, 1, (5, 4)) == "holds other images than its name says"  # of another draw
    assert damage_of(other, 0, (5, 3)) is not None


def test_a_damaged_pack_is_removed_and_an_intact_one_is_not(tmp_path):
    store, digests = store_in(tmp_path), digests_of(10)
    write(store, digests)
    (path,) = packs_in(store)
    assert store.remove_damaged(0, path) is None
    path.write_bytes(flipped(path.read_bytes(), 200))
    assert store.remove_damaged(0, path) == "checksum differs"
    assert store.remove_damaged(0, path) is None  # somebody else may have been faster
    assert store.missing(0, digests).all()


def test_an_image_is_claimed_once(tmp_path):
    digests = digests_of(10)
    one, other = store_in(tmp_path), store_in(tmp_path)
    ours, theirs = one.claims(), other.claims()
    assert ours.take(one.index(0), 0, digests[:6]).all()
    assert ours.take(one.index(0), 0, digests[:6]).sum() == 0
    assert theirs.take(other.index(0), 0, digests).tolist() == [False] * 6 + [True] * 4
    assert theirs.take(other.index(1), 1, digests).all()  # another draw
    write(one, digests[:6])
    ours.give_back(0, digests[:6])
    assert theirs.take(other.index(0), 0, digests).sum() == 0  # stored meanwhile
    theirs.close()
    assert ours.take(one.index(0), 0, digests).tolist() == [False] * 6 + [True] * 4
    ours.close()
    assert [path.name for path in one.folder.glob(".*")] == []


def test_claiming_does_not_list_all_packs_again(tmp_path, monkeypatch):
    """With a listing for each pack, a set of many packs would take a time that grows with their square."""
    one, other = store_in(tmp_path), store_in(tmp_path)
    ours, theirs = one.claims(), other.claims()
    listed, scandir = [], os.scandir

    def noted(path):
        listed.append(Path(path).name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    for number in range(6):
        digests = digests_of(5, 5 * number)
        assert ours.take(one.index(0), 0, digests).all()
        write(one, digests)
        ours.give_back(0, digests)
        assert not theirs.take(other.index(0), 0, digests_of(5 * number + 5)).any()
    assert listed.count("draw-000") <= 2 * 2  # when an index is made, and at the first claim
    (one.folder / ".written").unlink()
    assert not theirs.take(other.index(0), 0, digests_of(30)).any()  # the list only saves time
    ours.close()
    theirs.close()


def claim_and_wait(root, ready):
    store = store_in(root)
    assert store.claims().take(store.index(0), 0, digests_of(5)).all()
    claims = store.claims()
    assert claims.take(store.index(0), 0, digests_of(5, 5)).all()
    ready.set()
    time.sleep(600)


def test_a_killed_process_has_claimed_nothing(tmp_path):
    store, ready, claims = store_in(tmp_path), CHILD.Event(), store_in(tmp_path).claims()
    child = CHILD.Process(target=claim_and_wait, args=(tmp_path, ready))
    child.start()
    assert ready.wait(60)
    assert claims.take(store.index(0), 0, digests_of(10)).tolist() == [True] * 5 + [False] * 5  # the first were given up
    os.kill(child.pid or 0, signal.SIGKILL)
    child.join()
    assert claims.take(store.index(0), 0, digests_of(10)).tolist() == [False] * 5 + [True] * 5
    claims.close()
    assert [path.name for path in store.folder.glob(".*")] == []


def test_the_last_use_of_each_image_is_noted(tmp_path, monkeypatch):
    store, digests = store_in(tmp_path), np.sort(digests_of(10))
    for now, used in ((1000, digests[2:5]), (2000, digests[4:8]), (3000, digests[:0])):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        store.note_use(used)
    uses = read_uses(store.folder)
    assert uses["digest"].tolist() == digests[2:8].tolist()
    assert uses["time"].tolist() == [1000, 1000, 2000, 2000, 2000, 2000]
    (store.folder / "last_use.bin").write_bytes(b"half of")
    store.note_use(digests)
    assert len(read_uses(store.folder)) == 10


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
        store, digests = store_in(Path()), digests_of(10)
        store.note_use(digests)
        same = np.array_equal(store.read(0, digests), values_of(digests))
        answer.put((int(store.missing(0, digests).sum()), same, store.damaged(0, digests)))


def test_a_complete_store_may_be_read_only(tmp_path):
    store = store_in(tmp_path)
    write(store, digests_of(10))
    part = draw_folder(store.folder, 0) / ".00000.npy.1.part"
    part.write_bytes(b"half of it")
    for old in (part, store.folder / "manifest.json"):
        os.utime(old, (0, 0))
    folders = [tmp_path, store.folder, draw_folder(store.folder, 0)]
    for folder in folders:
        folder.chmod(0o555)
    answer = CHILD.Queue()
    child = CHILD.Process(target=read_alone, args=(tmp_path, answer))
    child.start()
    try:
        assert answer.get(timeout=60) == (0, True, {})
        assert part.exists()
    finally:
        child.join()
        for folder in folders:
            folder.chmod(0o755)


def test_a_manifest_that_says_something_else_is_refused(tmp_path):
    store = store_in(tmp_path)
    manifest = json.loads((store.folder / "manifest.json").read_text())
    assert manifest["key"]["teacher"] == "t"
    (store.folder / "manifest.json").write_text(json.dumps({**manifest, "dimension": 3}))
    with pytest.raises(UserError, match=r"manifest\.json: does not describe this model and its views"):
        store_in(tmp_path)


@pytest.mark.parametrize("text", ["half of", "[]", "[" * 100_000, '{"format": 3}', '{"views": "x"}'])
def test_a_damaged_manifest_is_written_again(tmp_path, caplog, text):
    store = store_in(tmp_path)
    write(store, digests_of(3))
    manifest = store.folder / "manifest.json"
    before = json.loads(manifest.read_text())
    manifest.write_text(text)
    again = store_in(tmp_path)
    assert f"{manifest}: damaged; it is written again" in caplog.text
    assert json.loads(manifest.read_text()) == before
    assert np.array_equal(again.read(0, digests_of(3)), values_of(digests_of(3)))


def test_a_pack_of_python_objects_is_damaged_and_never_unpickled(tmp_path):
    store = store_in(tmp_path)
    write(store, digests_of(3))
    (path,) = packs_in(store)
    content = io.BytesIO()
    np.save(content, np.array([{}] * 3, object), allow_pickle=True)
    size = path.stat().st_size - 16 - len(digests_of(3).tobytes())
    body = content.getvalue().ljust(size, b"\0")[:size] + digests_of(3).tobytes()
    path.write_bytes(body + blake2b(body, digest_size=16).digest())
    (reason,) = store_in(tmp_path).damaged(0, digests_of(3)).values()
    assert reason.startswith("not an array of numbers (Object arrays cannot be loaded")


def test_writers_that_meet_leave_one_whole_pack(tmp_path):
    for store in (store_in(tmp_path), store_in(tmp_path)):
        write(store, digests_of(10))
    assert len(packs_in(store)) == 1
    assert np.array_equal(store.read(0, digests_of(10)), values_of(digests_of(10)))


def test_an_image_in_two_packs_is_one_image(tmp_path):
    store, digests = store_in(tmp_path), digests_of(10)
    write(store, digests[:6])
    write(store, digests[4:])
    assert np.array_equal(store.read(0, digests), values_of(digests))


def test_what_a_killed_writer_left_is_cleared_and_what_a_living_one_writes_is_not(tmp_path):
    store = store_in(tmp_path)
    write(store, digests_of(3))
    draw = draw_folder(store.folder, 0)
    old, new, young, mine = (draw / name for name in (".old.npy.1.part", ".new.npy.1.part", ".young.npy.1.part", ".mine.txt"))
    unlocked = store.folder / ".0.lock"
    claims = store.claims()
    claims.take(store.index(0), 0, digests_of(3, 3))
    (locked,) = store.folder.glob(".*.lock")
    for path in (old, unlocked, new, young, mine):
        path.write_bytes(b"half of it")
    for path in (old, unlocked, locked, mine):
        os.utime(path, (0, 0))
    with new.open("ab") as living:
        fcntl.flock(living, fcntl.LOCK_EX)
        store_in(tmp_path)
    assert not old.exists()
    assert not young.exists()
    assert not unlocked.exists()
    assert all(path.exists() for path in (new, locked, mine))
    assert store.claims().take(store.index(0), 0, digests_of(3, 3)).sum() == 0
