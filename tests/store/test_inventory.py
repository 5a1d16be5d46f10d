import json
import os
import time
from dataclasses import replace

import numpy as np
import pytest

from aevlp.core.errors import UserError
from aevlp.store import inventory
from aevlp.store.embedding_store import EmbeddingStore, read_uses, write_uses
from tests.store.test_embedding_store import KEY, digests_of, packs_in, values_of, write

DAY = inventory.DAY


def open_store(root, name):
    return EmbeddingStore(root, replace(KEY, teacher=name), dimension=4, about={"model": name})


def write_store(root, name, draws=()):
    """The folder of a store that nobody uses, with so many images in each draw."""
    store = open_store(root, name)
    for draw, count in enumerate(draws):
        write(store, digests_of(count), draw)
    return store.folder


def write_older(root, format=2):
    """The folder of a store as version 0.6.0 wrote it."""
    folder = root / ("0" * 24)
    (folder / "draw-000").mkdir(parents=True)
    manifest = {"format": format, "key": {}, "images": 256, "dimension": 4, "views": 5, "about": {"model": "clip"}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    np.save(folder / "draw-000" / "00000.npy", np.zeros((256, 5, 4), np.float16))
    return folder


@pytest.mark.parametrize(
    ("counts", "images", "draws"),
    [([], 0, "0"), ([7], 7, "1"), ([300, 300], 300, "2"), ([9, 9, 4, 1], 9, "2 + 2 in part")],
)
def test_draws_hold_all_images_or_some(tmp_path, counts, images, draws):
    write_store(tmp_path, "a", counts)
    assert [(stored.images, stored.draws) for stored in inventory.stores(tmp_path)] == [(images, draws)]


def test_the_last_used_comes_first(tmp_path):
    for name, age in (("a", 3), ("b", 1), ("c", 2)):
        manifest = write_store(tmp_path, name) / "manifest.json"
        os.utime(manifest, (time.time() - age * DAY,) * 2)
    assert [stored.model for stored in inventory.stores(tmp_path)] == ["b", "c", "a"]


def test_the_size_is_that_of_all_files(tmp_path):
    folder = write_store(tmp_path, "a", [300, 10])
    (stored,) = inventory.stores(tmp_path)
    assert stored.size == sum(path.stat().st_size for path in folder.rglob("*.*"))
    assert stored.size > 310 * 5 * 4 * 2


def test_what_is_not_a_store_is_not_listed(tmp_path):
    folder = write_store(tmp_path, "a")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "manifest.json").write_text("{}")
    (tmp_path / ("1" * 24)).mkdir()  # no manifest
    (tmp_path / ("2" * 24)).write_text("a file")
    (tmp_path / ("3" * 24)).symlink_to(folder)
    assert [stored.folder for stored in inventory.stores(tmp_path)] == [folder]


DAMAGED = [
    *("", "[]", "{", "[" * 100_000, '{"format": 3}', '{"format": 3, "views": "x"}', '{"format": "x", "views": 1}'),
    *('{"format": 3, "views": Infinity, "dimension": 1}', '{"format": 3, "views": -8, "dimension": 1}'),
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_manifest_is_told(tmp_path, text):
    folder = write_store(tmp_path, "a")
    (folder / "manifest.json").write_text(text)
    (stored,) = inventory.stores(tmp_path)
    assert stored.unusable == "damaged manifest"
    assert inventory.verify([stored]).damaged == [(folder / "manifest.json", "damaged manifest")]


def test_other_formats_are_told(tmp_path):
    older = write_older(tmp_path)
    newer = tmp_path / ("1" * 24)
    newer.mkdir()
    (newer / "manifest.json").write_text(json.dumps({"format": 4}))
    found = inventory.stores(tmp_path)
    assert {stored.folder: (stored.unusable, stored.model) for stored in found} == {
        older: ("older format", "clip"),
        newer: ("newer format", ""),
    }
    assert inventory.verify(found).damaged == []


def test_a_key_may_be_abbreviated(tmp_path):
    names = [write_store(tmp_path, name).name for name in "abcdefghijklmnopqrst"]
    found = inventory.stores(tmp_path)
    one = names[3]
    assert [stored.folder.name for stored in inventory.chosen(found, [one[:20], one.upper()])] == [one]
    assert inventory.chosen(found, []) == found
    twins = next(name[0] for name in names if sum(other[0] == name[0] for other in names) > 1)
    with pytest.raises(UserError, match=f"KEY {twins}: several stores begin with it") as refusal:
        inventory.chosen(found, [twins])
    assert [name for name in names if name in str(refusal.value)] == [name for name in names if name[0] == twins]
    with pytest.raises(UserError, match="KEY xyz: no store has this key") as refusal:
        inventory.chosen(found, [one, "xyz"])
    assert all(name in str(refusal.value) for name in names)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (12.34e9, "12.3 GB"), (5e15, "5000.0 TB")],
)
def test_sizes_read_well(size, text):
    assert inventory.show_size(size) == text


def test_images_that_were_not_used_for_long_are_removed_from_their_packs(tmp_path):
    """A pack without any used image goes, a pack with some is written anew without the others."""
    digests, store = digests_of(600), open_store(tmp_path, "a")
    for draw in range(2):
        write(store, digests, draw)
    folder, now = store.folder, time.time()
    store.note_use(np.sort(digests))
    uses = read_uses(folder)
    recent = np.isin(uses["digest"], digests[200:300])
    uses["time"][~recent] = int(now - 20 * DAY)
    write_uses(folder, uses)
    del store
    assert inventory.prune(tmp_path, inventory.stores(tmp_path), 30, yes=True).endswith("0 B freed")
    report = inventory.prune(tmp_path, inventory.stores(tmp_path), 10, yes=False)
    assert report.startswith(f"to remove: 500 of 600 images, not used for 10 days, of {folder} (")
    assert "; add --yes to remove" in report
    assert [len(packs_in(open_store(tmp_path, "a"), draw)) for draw in range(2)] == [3, 3]
    assert "removed: 500 of 600 images" in inventory.prune(tmp_path, inventory.stores(tmp_path), 10, yes=True)
    store = open_store(tmp_path, "a")
    assert [len(packs_in(store, draw)) for draw in range(2)] == [2, 2]
    for draw in range(2):
        assert store.missing(draw, digests).sum() == 500
        assert np.array_equal(store.read(draw, digests[200:300]), values_of(digests[200:300], draw))
    assert inventory.verify(inventory.stores(tmp_path)).damaged == []
    assert len(read_uses(folder)) == 100


def test_a_damaged_pack_is_not_copied_with_a_valid_checksum(tmp_path):
    store = open_store(tmp_path, "a")
    digests = digests_of(200)
    write(store, digests)
    store.note_use(np.sort(digests))
    uses, (pack,) = read_uses(store.folder), packs_in(store)
    uses["time"][:50] = int(time.time() - 20 * DAY)
    write_uses(store.folder, uses)
    content = bytearray(pack.read_bytes())
    content[200] ^= 1
    pack.write_bytes(content)
    del store
    inventory.prune(tmp_path, inventory.stores(tmp_path), 10, yes=True)
    assert open_store(tmp_path, "a").missing(0, digests).all()  # to be computed again


def test_images_without_a_noted_use_are_as_old_as_their_packs(tmp_path):
    store = open_store(tmp_path, "a")
    write(store, digests_of(300))
    packs = packs_in(store)
    os.utime(packs[0], (time.time() - 20 * DAY,) * 2)
    count = len(next(pack for pack in store.index(0).packs if pack.path == packs[0]).digests)
    folder = store.folder
    del store
    report = inventory.prune(tmp_path, inventory.stores(tmp_path), 10, yes=True)
    assert f"removed: {count} of 300 images, not used for 10 days, of {folder}" in report
    assert packs_in(open_store(tmp_path, "a")) == packs[1:]


def test_images_of_a_store_in_use_are_kept(tmp_path):
    store = open_store(tmp_path, "a")
    write(store, digests_of(10))
    (pack,) = packs_in(store)
    os.utime(pack, (0, 0))
    report = inventory.prune(tmp_path, inventory.stores(tmp_path), 10, yes=True)
    assert report.startswith(f"in use, kept: {store.folder} (10 unused images)")
    assert pack.exists()
