"""The demo's pictures: the same for everyone, correctly labelled, long-tailed, with classes in company."""

import csv
import os
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from tools.demo_models.others import ALL_THINGS
from tools.demo_models.scenes import CAPTIONED

from aevlp.experiments.demo.scenes import CLASSES, demo_scene, draw_scene, write_world
from aevlp.experiments.demo.styles import DEMO, DEMO_CAST, GROUPS


@pytest.fixture(scope="module")
def choices():
    """What 4,000 scenes are meant to show."""
    rng = np.random.default_rng(3)
    return [DEMO_CAST.choose(rng) for _ in range(4000)]


@pytest.fixture(scope="module")
def drawn():
    return [demo_scene(5, "test", index) for index in range(250)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "world"
    write_world(folder, seed=4, train=8, test=5)
    return folder


def rows(folder):
    with (folder / "labels.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_there_are_twenty_classes_of_one_word_in_alphabetical_order():
    assert len(CLASSES) == 20
    assert list(CLASSES) == sorted(CLASSES)
    assert all(name.isalpha() and name.islower() for name in CLASSES)


def test_a_picture_depends_only_on_seed_split_and_index():
    forward = [demo_scene(1, split, index) for split in ("train", "test") for index in range(3)]
    backward = [demo_scene(1, split, index) for split in ("test", "train") for index in (2, 1, 0)][::-1]
    for one, two in zip(forward, backward, strict=True):
        assert one.labels == two.labels
        assert one.image.tobytes() == two.image.tobytes()
    assert len({scene.image.tobytes() for scene in forward}) == len(forward)
    assert demo_scene(2, "train", 0).image.tobytes() != forward[0].image.tobytes()


def test_files_are_the_same_whatever_the_number_of_pictures_and_workers(world, tmp_path):
    write_world(tmp_path / "larger", seed=4, train=230, test=5)  # enough for a pool of processes
    for row in rows(world):
        assert (world / row["image"]).read_bytes() == (tmp_path / "larger" / row["image"]).read_bytes()
    assert {tuple(row.values()) for row in rows(world)} <= {tuple(row.values()) for row in rows(tmp_path / "larger")}


def test_the_table_says_what_was_drawn(world):
    table = rows(world)
    assert list(table[0]) == ["image", "labels", "split"]
    assert Counter(row["split"] for row in table) == {"train": 8, "test": 5}
    for row in table:
        index = int(row["image"].removesuffix(".jpg")[-5:])
        assert row["labels"].split(";") == demo_scene(4, row["split"], index).labels
        with Image.open(world / row["image"]) as image:
            assert image.format == "JPEG"
            assert 140 <= max(image.size) <= 176
    assert (world / "classes.txt").read_text(encoding="utf-8").split() == list(CLASSES)
    assert sorted(path.name for path in (world / "images").iterdir()) == sorted(row["image"][7:] for row in table)


def test_a_world_replaces_an_old_one_and_leaves_nothing_beside_it(tmp_path):
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "old.txt").write_text("old", encoding="utf-8")
    write_world(tmp_path / "world", train=2, test=1)
    assert not (tmp_path / "world" / "old.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["world"]


def test_what_a_killed_drawing_left_is_cleared_away_and_one_under_way_is_not(tmp_path):
    for name, age in (("old", 7200), ("new", 0)):
        draft = tmp_path / f".world.{name}.part"
        (draft / "images").mkdir(parents=True)
        os.utime(draft, (time.time() - age,) * 2)
    write_world(tmp_path / "world", train=2, test=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".world.new.part", "world"]


def test_a_world_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("aevlp.experiments.demo.scenes._write_picture", fail)
    with pytest.raises(OSError, match="disk full"):
        write_world(tmp_path / "world", train=2, test=1)
    assert list(tmp_path.iterdir()) == []


def test_a_picture_has_one_to_five_classes_and_about_two(drawn):
    counts = [len(scene.labels) for scene in drawn]
    assert min(counts) >= 1
    assert max(counts) <= 5
    assert 2.0 < np.mean(counts) < 2.7
    assert all(set(scene.labels) <= set(CLASSES) for scene in drawn)


def test_things_are_from_small_to_dominant(drawn):
    areas = [area for scene in drawn for area in scene.areas.values()]
    assert min(areas) < 0.01
    assert np.quantile(areas, 0.1) < 0.035
    assert np.quantile(areas, 0.95) > 0.2


def test_frequencies_have_a_long_tail(choices):
    counts = sorted(Counter(name for chosen in choices for name in chosen).values())
    assert len(counts) == 20
    assert counts[-1] > 3.5 * counts[0]
    assert counts[-1] > 2 * np.median(counts)
    assert counts[0] > 0.02 * len(choices)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_a_group_likes_its_own_company(choices, group):
    def rate(*names):
        return sum(all(name in chosen for name in names) for chosen in choices) / len(choices)

    lifts = [rate(one, two) / (rate(one) * rate(two)) for one in group for two in group if one < two]
    assert min(lifts) > 1.2


def test_what_is_hidden_is_not_labelled():
    """Among small things and a huge one in front, the labels are exactly the classes with a visible area."""
    hidden = 0
    for index in range(60):
        wanted = ["apple", "star", "house", "tree", "car"]
        scene = draw_scene(np.random.default_rng(index), CAPTIONED, wanted)
        assert set(scene.labels) <= set(wanted)
        assert all(area >= 0.0012 for area in scene.areas.values())
        shown = {wanted[place - 1] for place in np.unique(scene.where) if place}
        assert shown == set(scene.labels)
        hidden += len(wanted) - len(scene.labels)
    assert hidden > 0


@pytest.mark.parametrize("name", sorted(ALL_THINGS))
def test_every_thing_can_be_drawn_and_seen(name):
    seen = sum(name in draw_scene(np.random.default_rng(i), DEMO, [name], ALL_THINGS).labels for i in range(5))
    assert seen >= 4


def test_drawing_needs_neither_torch_nor_transformers():
    code = "import sys, aevlp.experiments.demo.scenes; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
