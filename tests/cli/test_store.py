"""`aevlp store`: what is kept of the views can be listed, verified and pruned."""

import os
import shutil
import subprocess
import sys
import time
from multiprocessing import get_context

import pytest

from aevlp.store import inventory
from tests.cli.run import aevlp, refused
from tests.store.test_inventory import open_store, write_older, write_store

CHILD = get_context("fork")
ALL = (600, 600)  # images of two draws, in three packs each


def aged(path, days):
    then = time.time() - days * inventory.DAY
    os.utime(path, (then, then))


@pytest.fixture
def root(tmp_path):
    """Three stores: complete, begun and used ten days ago, of the older format and used twenty days ago."""
    root = tmp_path / "views"
    write_store(root, "complete", ALL)
    aged(write_store(root, "begun", (600, 80)) / "manifest.json", 10)
    aged(write_older(root) / "manifest.json", 20)
    return root


def folder_of(root, model):
    return next(stored.folder for stored in inventory.stores(root) if stored.model == model)


def everything(folder):
    return {path.relative_to(folder): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_list_shows_every_store_the_last_used_first(capsys, root):
    answer = aevlp(capsys, "store", "list", "--store", root)
    assert answer.code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in answer.out.splitlines() if "│" in line]
    folders = [folder_of(root, "complete"), folder_of(root, "begun"), folder_of(root, "clip")]
    assert [row[0] for row in rows] == [folder.name for folder in folders]
    assert [row[1:5] for row in rows] == [
        ["complete", "5 x 4", "600", "2"],
        ["begun", "5 x 4", "600", "1 + 1 in part"],
        ["clip", "-", "-", "older format"],
    ]
    sizes = [sum(path.stat().st_size for path in folder.rglob("*.*")) for folder in folders]
    assert [row[5] for row in rows] == [inventory.show_size(size) for size in sizes]
    assert f"3 stores, {inventory.show_size(sum(sizes))}" in answer.out


def test_list_looks_where_the_runs_keep_their_views(capsys, world, small):
    assert aevlp(capsys, "store", "list").out.endswith("views: nothing is stored yet\n")
    assert aevlp(capsys, "score", world, *small, "--epochs", "2").code == 0
    assert "1 store, " in aevlp(capsys, "store", "list").out
    assert aevlp(capsys, "store", "verify").out == "4 packs of 1 store: all intact\n"


def test_a_folder_that_does_not_exist_is_empty(capsys, tmp_path):
    nowhere = tmp_path / "nowhere"
    assert aevlp(capsys, "store", "list", "--store", nowhere).out == f"{nowhere}: nothing is stored yet\n"
    assert aevlp(capsys, "store", "prune", "--unused-for", 0, "--store", nowhere, "--yes").code == 0
    assert not nowhere.exists()


def test_looking_at_stores_does_not_load_torch(root):
    code = (
        "import sys; from aevlp.cli.main import main; main(sys.argv[1:]); assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    for action in ("list", "verify"):
        words = [sys.executable, "-c", code, "store", action, "--store", str(root)]
        assert subprocess.run(words, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:5000] + b"?" + path.read_bytes()[5001:]), "checksum differs"),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "5000 bytes are not a whole pack"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: shutil.copy(sorted(path.parent.iterdir())[0], path), "holds other images than its name says"),
    ],
    ids=["flipped", "truncated", "emptied", "replaced"],
)
def test_verify_names_what_is_damaged(capsys, root, spoil, what):
    answer = aevlp(capsys, "store", "verify", "--store", root)
    assert answer.code == 0
    assert answer.out.splitlines() == [
        f"{folder_of(root, 'clip')}: older format, not checked",
        "10 packs of 2 stores: all intact",
    ]
    folder = folder_of(root, "complete")
    path = sorted((folder / "draw-001").iterdir())[1]
    spoil(path)
    answer = aevlp(capsys, "store", "verify", folder.name[:10], "--store", root)
    assert answer.code == 2
    assert answer.out == f"{path}: {what}\n"
    message = refused(capsys, "store", "verify", "--store", root)
    assert "1 damaged file " in message
    assert "the next run computes damaged packs again" in message
    assert aevlp(capsys, "store", "verify", folder_of(root, "begun").name, "--store", root).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "required: action"),
        (["lst"], "invalid choice: 'lst'"),
        (["list", "abc"], "unexpected argument abc"),
        (["list", "--yes"], "unknown option --yes"),
        (["list", "--store", "none"], "--store none: there is no store to read"),
        (["verify", "xyz"], "KEY xyz: no store has this key"),
        (["prune"], "store prune: say what to remove"),
        (["prune", "--yes"], "store prune: say what to remove"),
        (["prune", "xyz", "--yes"], "KEY xyz: no store has this key"),
        (["prune", "", "--yes"], "several stores begin with it"),
        (["prune", "--unused-for", "-1"], "--unused-for must be at least 0, not -1.0"),
        (["prune", "--unused-for", "nan", "--yes"], "--unused-for must be at least 0, not nan"),
        (["prune", "--unused-for", "long"], "--unused-for: invalid float value: 'long'"),
    ],
)
def test_wrong_words_change_nothing(capsys, root, words, message):
    before = everything(root)
    place = [] if "--store" in words or not words else ["--store", root]
    assert message in refused(capsys, "store", *words, *place)
    assert everything(root) == before


def test_a_folder_of_stores_that_is_a_file_is_refused(capsys, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert f"--store {tmp_path / 'file'}: cannot be read" in refused(capsys, "store", "list", "--store", tmp_path / "file")


def test_prune_removes_what_is_named_and_only_when_told_to(capsys, root):
    folder, before = folder_of(root, "complete"), everything(root)
    size = inventory.show_size(sum(path.stat().st_size for path in folder.rglob("*.*")))
    answer = aevlp(capsys, "store", "prune", folder.name[:12], "--store", root)
    assert answer.code == 0
    assert f"to remove: {folder} ({size}, last used " in answer.out
    assert f"{size} to free; add --yes to remove" in answer.out
    assert everything(root) == before
    answer = aevlp(capsys, "store", "prune", folder.name[:12], "--store", root, "--yes")
    assert f"removed: {folder}" in answer.out
    assert f"{size} freed" in answer.out
    kept = {path: content for path, content in before.items() if path.parts[0] != folder.name}
    assert everything(root) == kept


def test_prune_removes_what_was_not_used_for_so_long(capsys, root):
    begun, complete, older = folder_of(root, "begun"), folder_of(root, "complete"), folder_of(root, "clip")
    memory = root / "files.sqlite"
    memory.write_text("known files")
    aged(memory, 16)
    answer = aevlp(capsys, "store", "prune", begun.name, "--unused-for", 15, "--store", root, "--yes")
    assert answer.code == 0
    assert all(folder.is_dir() for folder in (begun, complete, older))  # named, but used since
    assert not memory.exists()
    aevlp(capsys, "store", "prune", "--unused-for", "15", "--store", root, "--yes")
    assert [folder.is_dir() for folder in (begun, complete, older)] == [True, True, False]
    aevlp(capsys, "store", "prune", "--unused-for", "9.5", "--store", root, "--yes")
    assert [folder.is_dir() for folder in (begun, complete)] == [False, True]
    assert "nothing to remove" in aevlp(capsys, "store", "prune", "--unused-for", "9.5", "--store", root).out


def open_and_wait(root, ready, done):
    store = open_store(root, "complete")
    ready.set()
    done.wait()
    del store
    ready.set()
    time.sleep(600)


def test_prune_keeps_what_another_process_uses(capsys, root):
    ready, done = CHILD.Event(), CHILD.Event()
    child = CHILD.Process(target=open_and_wait, args=(root, ready, done))
    child.start()
    try:
        assert ready.wait(60)
        folder, older = folder_of(root, "complete"), folder_of(root, "clip")
        before = everything(folder)
        words = ["store", "prune", folder.name, older.name, "--store", root]
        for more in ([], ["--yes"]):
            answer = aevlp(capsys, *words, *more)
            assert answer.code == 0
            assert f"in use, kept: {folder}" in answer.out
        assert everything(folder) == before
        assert not older.exists()
        ready.clear()
        done.set()  # it lets go of the store, but lives on
        assert ready.wait(60)
        assert f"removed: {folder}" in aevlp(capsys, "store", "prune", folder.name, "--store", root, "--yes").out
        assert not folder.exists()
    finally:
        child.kill()
        child.join()


def test_a_killed_user_keeps_nothing(capsys, root):
    ready = CHILD.Event()
    child = CHILD.Process(target=open_and_wait, args=(root, ready, CHILD.Event()))
    child.start()
    assert ready.wait(60)
    child.kill()
    child.join()
    folder = folder_of(root, "complete")
    assert f"removed: {folder}" in aevlp(capsys, "store", "prune", folder.name, "--store", root, "--yes").out


def test_prune_touches_nothing_but_stores(capsys, root):
    mine = root / "thesis" / "manifest.json"
    hexed = root / ("a" * 24) / "draft.txt"  # looks like a key, but has no manifest
    hidden = root / ".mine.removed" / "x"
    kept = root / "draw-000" / "00000.npy"
    for path in (mine, hexed, hidden, kept):
        path.parent.mkdir(exist_ok=True)
        path.write_text("years of work")
        aged(path, 1000)
    outside = root.parent / "outside"
    shutil.copytree(folder_of(root, "complete"), outside)
    (root / ("b" * 24)).symlink_to(outside)
    before = everything(outside)
    assert aevlp(capsys, "store", "prune", "--unused-for", 0, "--store", root, "--yes").code == 0
    assert sorted(path.name for path in root.iterdir()) == sorted([".mine.removed", "a" * 24, "b" * 24, "draw-000", "thesis"])
    assert all(path.read_text() == "years of work" for path in (mine, hexed, hidden, kept))
    assert everything(outside) == before


def test_a_killed_prune_leaves_no_half_store_and_is_finished_by_the_next(capsys, root, monkeypatch):
    folder, begun = folder_of(root, "complete"), folder_of(root, "begun")

    def die(path, **_):
        (path / "manifest.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", die)
        assert aevlp(capsys, "store", "prune", folder.name, "--store", root, "--yes").code == 130
    assert not folder.exists()
    assert len(list(root.glob(".*.removed"))) == 1
    assert "2 stores" in aevlp(capsys, "store", "list", "--store", root).out
    part = begun / "draw-000" / ".00000.npy.0.part"
    part.write_text("half of it")
    aged(part, 1)
    words = ["store", "prune", "--unused-for", "100", "--store", root]
    assert "to remove: 1 x rest of a killed prune" in aevlp(capsys, *words).out
    assert len(list(root.glob(".*.removed"))) == 1
    assert part.exists()
    assert aevlp(capsys, *words, "--yes").code == 0
    assert list(root.glob(".*.removed")) == []
    assert not part.exists()
    assert begun.is_dir()
