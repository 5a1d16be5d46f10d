"""Filling a store from several processes, some of which are killed."""

import os
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from accelerate import Accelerator

from aevlp.data.dataset import Split
from aevlp.store import inventory
from aevlp.store.fill import fill, missing
from tests.store.test_embedding_store import digests_of, packs_in, store_in, values_of

CHILD = get_context("fork")
DRAWS = 2


class Embedder:
    """A model that notes every image it sees in a file."""

    model, work = "teacher", "seeing"

    def __init__(self, notes, seconds=0.0):
        self.notes, self.seconds, self.forward_batches = notes, seconds, 0

    def embed(self, jobs, advance):
        for job in jobs:
            for digest in job.digests.tolist():
                time.sleep(self.seconds)
                with self.notes.open("a") as file:
                    file.write(f"{job.draw} {digest.hex()}\n")
            self.forward_batches += 1
            advance(len(job.digests))
            yield job, values_of(job.digests, job.draw)


def split_of(digests):
    names = tuple(f"{number}.png" for number in range(len(digests)))
    return Split("train", Path("photos"), names, digests, np.zeros((len(digests), 1), np.int8), None)


def fill_store(root, digests, notes, seconds=0.0):
    fill(store_in(root), split_of(digests), DRAWS, Embedder(notes, seconds), Accelerator(cpu=True))


def seen(notes):
    return Counter(notes.read_text().splitlines()) if notes.exists() else Counter()


def assert_filled(root, digests):
    store = store_in(root)
    for draw in range(DRAWS):
        assert np.array_equal(store.read(draw, digests), values_of(digests, draw))
    assert inventory.verify(inventory.stores(root)).damaged == []


def test_equal_images_are_seen_once(tmp_path):
    digests = digests_of(10)[[0, 1, 2, 1, 5, 0, 9]]
    assert missing(store_in(tmp_path), digests, DRAWS) == DRAWS * 5
    fill_store(tmp_path, digests, tmp_path / "notes")
    assert set(seen(tmp_path / "notes").values()) == {1}
    assert len(seen(tmp_path / "notes")) == DRAWS * 5
    assert_filled(tmp_path, digests)
    assert missing(store_in(tmp_path), digests, DRAWS) == 0


def test_packs_are_as_large_as_they_may_be(tmp_path):
    """Also if only some of the images are missing here and there."""
    digests = digests_of(700)
    fill_store(tmp_path, digests[::7], tmp_path / "notes")
    fill_store(tmp_path, digests, tmp_path / "notes")
    sizes = [len(pack.digests) for pack in store_in(tmp_path).index(0).packs]
    assert sorted(sizes) == [88, 100, 256, 256]
    assert set(seen(tmp_path / "notes").values()) == {1}


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("nowhere"), lambda path: path.symlink_to(path.name)])
def test_what_is_no_file_in_place_of_a_pack_is_replaced(tmp_path, put):
    digests = digests_of(10)
    fill_store(tmp_path, digests, tmp_path / "notes")
    (pack,) = packs_in(store_in(tmp_path), 1)
    pack.unlink()
    put(pack)
    fill_store(tmp_path, digests, tmp_path / "notes")
    assert_filled(tmp_path, digests)


def test_a_pack_under_the_name_of_another_is_replaced(tmp_path):
    digests = digests_of(300)
    fill_store(tmp_path, digests, tmp_path / "notes")
    one, other = packs_in(store_in(tmp_path), 1)
    one.write_bytes(other.read_bytes())
    fill_store(tmp_path, digests, tmp_path / "notes")
    assert_filled(tmp_path, digests)


def test_twenty_kills_lose_nothing_but_what_was_in_hand(tmp_path, monkeypatch):
    """Two processes on overlapping sets, one of which is killed again and again, whatever it is doing."""
    monkeypatch.setattr("aevlp.store.fill.PACK", 6)
    rng = np.random.default_rng(0)
    digests, notes = digests_of(900), tmp_path / "notes"
    for number in range(20):
        sets = digests[: 500 + 10 * number], digests[400 - 10 * number :]
        children = [CHILD.Process(target=fill_store, args=(tmp_path / "store", some, notes, 0.001)) for some in sets]
        for child in children:
            child.start()
        time.sleep(rng.uniform(0.02, 0.3))
        for child in children:
            child.kill()
            child.join()
    twice = sum(count - 1 for count in seen(notes).values())
    assert sum(seen(notes).values()) > 100  # the kills came while they worked
    assert twice <= 2 * 20 * 6  # a pack each
    fill_store(tmp_path / "store", digests, notes)
    assert len(seen(notes)) == DRAWS * 900
    assert_filled(tmp_path / "store", digests)
    store = store_in(tmp_path / "store")
    assert sum(len(pack.digests) for pack in store.index(0).packs) == 900  # none is stored twice
    os.utime(store.folder)
    for path in store.folder.rglob(".*"):
        os.utime(path, (0, 0))
    assert [path.suffix for path in store_in(tmp_path / "store").folder.rglob(".*.part")] == []


def test_processes_on_overlapping_sets_see_each_image_once(tmp_path, monkeypatch):
    monkeypatch.setattr("aevlp.store.fill.PACK", 8)
    digests, notes = digests_of(120), tmp_path / "notes"
    sets = [digests[:80], digests[40:], digests[::-1]]
    children = [CHILD.Process(target=fill_store, args=(tmp_path / "store", some, notes, 0.002)) for some in sets]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert seen(notes) == dict.fromkeys(seen(notes), 1)
    assert len(seen(notes)) == DRAWS * 120
    assert_filled(tmp_path / "store", digests)
    assert not list((tmp_path / "store").rglob("*.lock"))
    assert not list((tmp_path / "store").rglob("*.claims"))


def test_a_photo_a_day_is_a_small_pack_a_day(tmp_path):
    digests, store = digests_of(30), store_in(tmp_path)
    for count in range(1, 31):
        fill_store(tmp_path, digests[:count], tmp_path / "notes")
    assert len(packs_in(store)) == 30
    assert set(seen(tmp_path / "notes").values()) == {1}
    assert_filled(tmp_path, digests)
