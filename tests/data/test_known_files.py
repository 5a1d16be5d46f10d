import os
import shutil
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

from aevlp.data import load as load_module
from aevlp.data.dataset import Paths
from aevlp.data.image_files import digests
from aevlp.data.known_files import FILE, recall
from aevlp.data.load import examine
from tests.colours import write_world


def age(folder: Path) -> None:
    """Let files have been written an hour ago."""
    for file in folder.iterdir():
        os.utime(file, ns=(0, time.time_ns() - 3600 * 10**9))


@pytest.fixture
def paths(tmp_path) -> Paths:
    folder = write_world(tmp_path / "world", train=8, test=0) / "images"
    (folder / "000.png").rename(folder / os.fsdecode(b"caf\xe9.png"))
    age(folder)
    return Paths(folder, tuple(sorted(path.name for path in folder.iterdir())))


@pytest.fixture
def hashed(monkeypatch) -> list[str]:
    """The names of the files that are hashed."""
    names: list[str] = []

    def note(paths, **options):
        names.extend(path.name for path in paths)
        return digests(paths, **options)

    monkeypatch.setattr(load_module, "digests", note)
    return names


def test_known_files_are_hashed_once(paths, hashed, tmp_path):
    first, bad = examine(paths, tmp_path / "views")
    assert bad == {}
    assert first.tolist() == digests(paths).tolist()
    assert len(hashed) == 8
    again, _ = examine(paths, tmp_path / "views")
    assert again.tolist() == first.tolist()
    assert len(hashed) == 8
    examine(paths, None)  # remembers and recalls nothing
    assert len(hashed) == 16


def test_a_file_that_has_changed_is_hashed_again(paths, hashed, tmp_path):
    """Its size may be the same."""
    first, _ = examine(paths, tmp_path)
    del hashed[:]
    file = paths[3]
    os.utime(file, ns=(1, file.stat().st_mtime_ns + 1))
    other = paths[5]
    state, content = other.stat(), paths[6].read_bytes()
    other.write_bytes(content)
    os.utime(other, ns=(1, state.st_mtime_ns))  # another size at the same time
    second, _ = examine(paths, tmp_path)
    assert sorted(hashed) == sorted([file.name, *([other.name] if len(content) != state.st_size else [])])
    assert second[3] == first[3]
    if len(content) != state.st_size:
        assert second[5] == second[6] == first[6]


@pytest.mark.parametrize("content", [b"", b"half", "another image"])
def test_what_a_file_was_while_it_was_read_is_not_remembered_as_what_it_is(paths, tmp_path, monkeypatch, content):
    """It has its old content, size and time when the next command looks at it."""
    expected, file, kept = digests(paths), paths[3], tmp_path / "kept"
    shutil.copy2(file, kept)
    other = paths[5].read_bytes() if content == "another image" else content

    def change_and_hash(paths, **options):
        file.write_bytes(other)
        return digests(paths, **options)

    with monkeypatch.context() as patch:
        patch.setattr(load_module, "digests", change_and_hash)
        examine(paths, tmp_path / "memory")
    shutil.copy2(kept, file)
    for _ in range(2):
        found, bad = examine(paths, tmp_path / "memory")
        assert found.tolist() == expected.tolist()
        assert bad == {}


def test_a_file_that_was_changed_just_before_is_hashed_again(paths, hashed, tmp_path):
    """The clock may show the next change at the same time."""
    file, size = paths[3], paths[3].stat().st_size
    file.write_bytes(paths[3].read_bytes())
    now = file.stat().st_mtime_ns
    examine(paths, tmp_path / "memory")
    file.write_bytes(bytes(size))
    os.utime(file, ns=(now, now))
    del hashed[:]
    found, bad = examine(paths, tmp_path / "memory")
    assert hashed == [file.name]
    assert found[3] == digests([file])[0]
    assert set(bad) == {3}


def test_names_folders_and_links_do_not_confuse_it(paths, hashed, tmp_path):
    examine(paths, tmp_path)
    del hashed[:]
    link = tmp_path / "link"
    link.symlink_to(paths.root)
    examine(Paths(link, paths.names), tmp_path)  # the same files
    examine(Paths(paths.root.parent, tuple(f"images/{name}" for name in paths.names)), tmp_path)
    assert hashed == []


def test_unreadable_files_are_looked_at_again_and_have_no_digest_in_common(paths, tmp_path):
    paths[1].write_text("not an image")
    paths[2].unlink()
    for _ in range(2):
        found, bad = examine(paths, tmp_path)
        assert set(bad) == {1, 2}
        assert "no such file" in bad[2]
        assert found[2] == b""
    write_world(tmp_path / "other", train=8, test=0)
    (tmp_path / "other" / "images" / "005.png").rename(paths[1])
    assert set(examine(paths, tmp_path)[1]) == {2}


def test_a_file_without_a_digest_is_never_taken_for_a_readable_one(paths, tmp_path, monkeypatch):
    """As when it could be opened a moment later."""
    monkeypatch.setattr(load_module, "digests", lambda paths, **_: np.zeros(len(paths), "S16"))
    _, bad = examine(paths, tmp_path)
    assert set(bad) == set(range(8))


@pytest.mark.parametrize("content", [b"", b"half of", b"SQLite format 3\0" + b"\xff" * 3000])
def test_a_damaged_memory_is_made_again(paths, hashed, tmp_path, content):
    (tmp_path / FILE).write_bytes(content)
    for _ in range(3):
        examine(paths, tmp_path)
    assert 8 <= len(hashed) <= 16
    assert (recall(paths, tmp_path).digests != b"").all()


def test_a_memory_of_another_kind_is_left_alone(paths, tmp_path):
    with sqlite3.connect(tmp_path / FILE) as other:
        other.execute("CREATE TABLE files (name TEXT)")
    other.close()
    assert examine(paths, tmp_path)[1] == {}
    with sqlite3.connect(tmp_path / FILE) as other:
        assert other.execute("SELECT * FROM files").fetchall() == []
    other.close()


def test_digests_that_end_with_null_bytes_are_remembered(paths, tmp_path, monkeypatch):
    short = np.array([b"%d" % number for number in range(8)], "S16")
    monkeypatch.setattr(load_module, "digests", lambda paths, **_: short[: len(paths)])
    examine(paths, tmp_path)
    assert recall(paths, tmp_path).digests.tolist() == short.tolist()


def test_a_place_that_cannot_be_written_is_no_reason_to_stop(paths):
    assert examine(paths, Path("/proc/nowhere"))[1] == {}
