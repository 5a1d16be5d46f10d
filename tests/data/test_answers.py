"""The store of answers: what counts, undo, several processes, and the table with the answers applied."""

import multiprocessing
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from aevlp.core.errors import UserError
from aevlp.core.remote import location
from aevlp.data.annotations import COMPLETE, Annotations, ScoredCells, ScoreKind, State
from aevlp.data.answers import ACCEPTED, REJECTED, WITHDRAWN, AnswerStore, GivenAnswer, answers_file, completed_file
from aevlp.data.dataset import ImageTable, prepare

CLASSES = ("cat", "dog", "sofa")


def cells(*given: tuple[str, str, int]) -> list[GivenAnswer]:
    return [GivenAnswer(*each) for each in given]


@pytest.fixture
def store(tmp_path) -> AnswerStore:
    (tmp_path / "photos").mkdir()
    return AnswerStore(tmp_path / "photos" / "answers.sqlite")


def table(root: Path, images: int = 4) -> ImageTable:
    labels = np.zeros((images, len(CLASSES)), np.int8)
    labels[:, 1] = 1
    kinds = np.full(images, ScoreKind.PROPOSED, np.int8)
    confidence = np.full(images, 0.8, np.float32)
    proposed = ScoredCells(np.arange(images, dtype=np.int32), np.zeros(images, np.int32), kinds, confidence, {})
    names = tuple(f"{row}.jpg" for row in range(images))
    annotations = Annotations(scores=proposed)
    known = np.array(names, "S16")
    return ImageTable(root, names, CLASSES, labels, ("train",) * images, "table", known_digests=known, annotations=annotations)


def values(store: AnswerStore) -> dict[tuple[str, str], int]:
    return {(each.image, each.label): each.value for each in store.current()}


def test_the_last_answer_counts_and_a_withdrawn_one_does_not(store):
    store.record("ann", cells(("1.jpg", "cat", ACCEPTED), ("2.jpg", "cat", REJECTED)), kind="grid")
    store.record("bob", cells(("1.jpg", "cat", REJECTED), ("2.jpg", "cat", WITHDRAWN)), kind="image")
    assert values(store) == {("1.jpg", "cat"): REJECTED}
    assert store.current()[0].who == "bob"
    assert store.current_about([("1.jpg", "cat"), ("2.jpg", "cat"), ("3.jpg", "cat")]) == {("1.jpg", "cat"): REJECTED}


def test_undo_goes_back_through_a_persons_own_actions(store):
    store.record("ann", cells(("1.jpg", "cat", ACCEPTED)), kind="grid", keys=2, seconds=3.5)
    store.record("ann", cells(("1.jpg", "cat", REJECTED), ("2.jpg", "dog", ACCEPTED)), kind="grid", keys=1)
    store.record("bob", cells(("3.jpg", "cat", ACCEPTED)), kind="image")
    undone = store.undo("ann")
    assert undone is not None
    assert undone.answers == tuple(cells(("1.jpg", "cat", REJECTED), ("2.jpg", "dog", ACCEPTED)))
    assert values(store) == {("1.jpg", "cat"): ACCEPTED, ("3.jpg", "cat"): ACCEPTED}
    assert store.current_about([("1.jpg", "cat"), ("2.jpg", "dog")]) == {("1.jpg", "cat"): ACCEPTED}
    assert store.undo("ann") is not None
    assert store.undo("ann") is None
    assert values(store) == {("3.jpg", "cat"): ACCEPTED}
    effort = store.effort()
    assert (effort.actions, effort.answers, effort.keys, effort.seconds) == (3, 1, 3, 3.5)  # undone actions cost too


def _record_many(path: Path, who: str) -> None:
    store = AnswerStore(path)
    for number in range(25):
        store.record(who, cells((f"{number}.jpg", who, ACCEPTED)), kind="grid")


def test_several_processes_write_one_store(store):
    context = multiprocessing.get_context("spawn")
    people = [context.Process(target=_record_many, args=(store.path, who)) for who in ("ann", "bob", "eve")]
    for person in people:
        person.start()
    for person in people:
        person.join()
        assert person.exitcode == 0
    assert len(values(store)) == 75


def test_applied_answers_are_confirmed_labels_with_their_author(store):
    photos = table(store.path.parent)
    store.record("ann", cells(("0.jpg", "cat", ACCEPTED), ("1.jpg", "cat", REJECTED), ("2.jpg", "dog", REJECTED)), kind="grid")
    store.record(
        "bob", cells(("3.jpg", "sofa", ACCEPTED), ("3.jpg", COMPLETE, ACCEPTED), ("gone.jpg", "cat", ACCEPTED)), kind="image"
    )
    answered, foreign = store.apply(photos)
    assert foreign == 1
    assert answered.annotations.states(answered.labels).tolist() == [
        [State.ACCEPTED, State.OBSERVED, State.UNSEEN],
        [State.REJECTED, State.OBSERVED, State.UNSEEN],
        [State.PROPOSED, State.REJECTED, State.UNSEEN],
        [State.PROPOSED, State.OBSERVED, State.ACCEPTED],
    ]
    assert answered.annotations.answers[0, 0].who == "ann"
    assert answered.annotations.answers[0, 0].at.startswith("20")
    assert photos.labels[0, 0] == 0  # the table that was given stays as it was
    assert answered.annotations.complete == {3}


def test_a_complete_image_is_fully_labelled_for_training(store):
    photos = table(store.path.parent, 10)
    store.record("ann", cells(("3.jpg", "sofa", ACCEPTED), ("3.jpg", COMPLETE, ACCEPTED)), kind="image")
    answered, _ = store.apply(photos)
    data = prepare(answered)
    split = data.train if "3.jpg" in data.train.names else data.val
    assert split.observed[split.names.index("3.jpg")].tolist() == [-1, 1, 1]
    others = np.concatenate([data.train.observed, data.val.observed])
    assert ((others == -1).sum(1) > 0).sum() == 1


def test_complete_images_of_the_audit_become_validation_images(store):
    photos = table(store.path.parent, 10)
    assert store.keep_audit(["4.jpg", "2.jpg"]) == ["4.jpg", "2.jpg"]
    assert store.keep_audit(["9.jpg"]) == ["4.jpg", "2.jpg"]  # it is drawn once
    store.record("ann", cells(("4.jpg", COMPLETE, ACCEPTED), ("5.jpg", COMPLETE, ACCEPTED)), kind="audit")
    answered, _ = store.apply(photos)
    assert [name for name, split in zip(answered.names, answered.splits, strict=True) if split == "val"] == ["4.jpg"]
    assert prepare(answered).val.truth is not None


def test_answers_hold_for_another_table_of_the_same_images(store, tmp_path):
    store.record("ann", cells(("sub/1.jpg", "cat", ACCEPTED)), kind="grid")
    labels = np.zeros((1, 3), np.int8)
    other = ImageTable(tmp_path, ("photos/sub/1.jpg",), CLASSES, labels, ("train",), "table")
    answered, foreign = store.apply(other)
    assert (answered.labels.tolist(), foreign) == ([[1, 0, 0]], 0)
    assert store.keys_of(tmp_path / "photos" / "sub", ["../sub/1.jpg"]) == ["sub/1.jpg"]


def test_where_answers_are_kept(tmp_path):
    assert completed_file(tmp_path) == tmp_path / "completed.jsonl"
    (tmp_path / "completed.jsonl").touch()
    assert answers_file(tmp_path) == answers_file(tmp_path / "completed.jsonl") == tmp_path / "answers.sqlite"
    (tmp_path / "completed-2.jsonl").touch()
    assert completed_file(tmp_path / "completed.jsonl") == tmp_path / "completed-3.jsonl"  # beside the answers


def test_a_file_that_is_no_store_is_refused_and_kept(tmp_path):
    path = tmp_path / "answers.sqlite"
    path.write_text("my own notes, of some length, which are no database at all\n" * 20)
    with pytest.raises(
        UserError, match=r"answers.sqlite: cannot be used as a store of answers \(file is not a database\); choose"
    ):
        AnswerStore(path)
    assert path.read_text().startswith("my own notes")
    with pytest.raises(UserError, match=r"none.sqlite: no such file of answers; check the path"):
        AnswerStore(tmp_path / "none.sqlite", must_exist=True)
    assert not (tmp_path / "none.sqlite").exists()


def test_a_store_of_a_later_version_is_refused(store):
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(UserError, match=r"answers of another version of aevlp \(7\)"):
        AnswerStore(store.path)


def test_an_image_at_a_remote_address_is_named_by_it(store, tmp_path):
    remote = location("memory://photos/set")
    assert store.keys_of(remote, ["a/1.jpg"]) == ["memory://photos/set/a/1.jpg"]
    assert store.keys_of(tmp_path, ["photos/1.jpg", "memory://photos/set/a/1.jpg"]) == ["1.jpg", "memory://photos/set/a/1.jpg"]
    with pytest.raises(UserError, match="name a file on this machine for the answers with --answers"):
        answers_file(remote)


@pytest.mark.parametrize(
    ("column", "value"),
    [("value", 7), ("value", "yes"), ("at", 1e300), ("at", "now"), ("who", b"\xff"), ("label", b"")],
)
def test_answers_that_make_no_sense_are_refused_in_one_line(store, column, value):
    store.record("ann", cells(("1.jpg", "cat", ACCEPTED)), kind="grid")
    table = "actions" if column in ("at", "who") else "answers"
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    with pytest.raises(
        UserError, match=r"answers\.sqlite: damaged \(an answer about .* makes no sense\); use a copy from before"
    ):
        store.current()


def test_a_page_that_is_damaged_is_found_late_and_refused_in_one_line(store):
    store.record("ann", cells(*((f"{number}.jpg", "cat", ACCEPTED) for number in range(2000))), kind="grid")
    with sqlite3.connect(store.path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(store.path.read_bytes())
    content[3 * 4096 :] = b"\x05" * (len(content) - 3 * 4096)
    store.path.write_bytes(content)
    with pytest.raises(UserError, match=r"answers\.sqlite: cannot be used as a store of answers"):
        AnswerStore(store.path).current()
