import json
import os
import time
from dataclasses import replace

import numpy as np
import pytest

from aevlp.core.errors import UserError
from aevlp.store import inventory
from aevlp.store.embedding_store import SHARD, EmbeddingStore
from tests.store.test_embedding_store import KEY


def open_store(root, name):
    """A store of three shards a draw."""
    about = {"model": "demo", "data": name}
    return EmbeddingStore(root, replace(KEY, images=name), count=2 * SHARD + 10, dimension=4, about=about)


def write_store(root, name, shards=()):
    """The folder of a store that nobody uses with those (draw, shard) in it."""
    store = open_store(root, name)
    for draw, shard in shards:
        store.write(draw, shard, np.full((len(store.rows(shard)), 5, 4), draw, np.float16))
    return store.folder


def write_older(root, images=300):
    """The folder of a store as version 0.1.0 wrote it."""
    folder = root / ("0" * 24)
    (folder / "draw-000").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"key": {}, "images": images, "dimension": 4, "shard": 256}))
    np.save(folder / "draw-000" / "00000.npy", np.zeros((256, 5, 4), np.float16))
    return folder


@pytest.mark.parametrize(
    ("shards", "draws"),
    [
        ([], "0"),
        ([(0, 1)], "0 + 1 of 3 shards"),
        ([(0, 0), (0, 1), (0, 2)], "1"),
        ([(0, 0), (0, 1), (0, 2), (1, 2)], "1 + 1 of 3 shards"),
        ([(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)], "1 + 3 of 6 shards"),
    ],
)
def test_draws_are_complete_or_begun(tmp_path, shards, draws):
    write_store(tmp_path, "a", shards)
    assert [stored.draws for stored in inventory.stores(tmp_path)] == [draws]


def test_the_last_used_comes_first(tmp_path):
    for name, age in (("a", 3), ("b", 1), ("c", 2)):
        manifest = write_store(tmp_path, name) / "manifest.json"
        os.utime(manifest, (time.time() - age * inventory.DAY,) * 2)
    found = inventory.stores(tmp_path)
    assert [stored.data for stored in found] == ["b", "c", "a"]
    assert [stored.data for stored in inventory.unused(found, 1.5)] == ["c", "a"]


def test_the_size_is_that_of_all_files(tmp_path):
    folder = write_store(tmp_path, "a", [(0, 0), (1, 2)])
    (stored,) = inventory.stores(tmp_path)
    assert stored.size == sum(path.stat().st_size for path in folder.rglob("*.*"))
    assert stored.size > (SHARD + 10) * 5 * 4 * 2


def test_what_is_not_a_store_is_not_listed(tmp_path):
    folder = write_store(tmp_path, "a")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "manifest.json").write_text("{}")
    (tmp_path / ("1" * 24)).mkdir()  # no manifest
    (tmp_path / ("2" * 24)).write_text("a file")
    (tmp_path / ("3" * 24)).symlink_to(folder)
    assert [stored.folder for stored in inventory.stores(tmp_path)] == [folder]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"format": 2}', '{"format": 2, "images": "x"}', '{"format": "x", "images": 1}'])
def test_a_damaged_manifest_is_told(tmp_path, text):
    folder = write_store(tmp_path, "a")
    (folder / "manifest.json").write_text(text)
    (stored,) = inventory.stores(tmp_path)
    assert stored.draws == "damaged manifest"
    assert inventory.verify([stored]).damaged == [(folder / "manifest.json", "damaged manifest")]


def test_other_formats_are_told(tmp_path):
    older = write_older(tmp_path)
    newer = tmp_path / ("1" * 24)
    newer.mkdir()
    (newer / "manifest.json").write_text(json.dumps({"format": 3, "images": 7}))
    found = inventory.stores(tmp_path)
    assert {stored.folder: (stored.draws, stored.images) for stored in found} == {
        older: ("older format", 300),
        newer: ("newer format", 7),
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


def test_a_store_that_names_its_teacher_is_listed_by_it(tmp_path):
    """As version 0.4.0 wrote it."""
    folder = write_store(tmp_path, "old", [(0, 0)])
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["about"] = {"teacher": "clip", "data": "photos"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (found,) = inventory.stores(tmp_path)
    assert (found.model, found.data) == ("clip", "photos")
