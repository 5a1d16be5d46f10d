import errno
import fcntl
import os
import signal
from multiprocessing import get_context

import pytest

from aevlp.core.errors import UserError
from aevlp.core.locks import claim_file, claim_folder, hold_folder

CHILD = get_context("fork")  # spawned ones would load everything again


def claim_and_wait(path, ready, done):
    claim = claim_file(path)
    assert claim is not None
    ready.set()
    done.wait()
    claim.release()


@pytest.fixture
def other(tmp_path):
    """Another process that has claimed `tmp_path / "lock"`, and an event that makes it release it."""
    ready, done = CHILD.Event(), CHILD.Event()
    process = CHILD.Process(target=claim_and_wait, args=(tmp_path / "lock", ready, done))
    process.start()
    assert ready.wait(60)
    yield process, done
    process.kill()
    process.join()


def test_one_claim_at_a_time(tmp_path):
    path = tmp_path / "below" / "lock"
    first = claim_file(path)
    assert first is not None
    assert claim_file(path) is None
    first.release()
    assert not path.exists()
    second = claim_file(path)
    assert second is not None
    first.release()  # once more: must not touch what is not its own any longer
    assert path.exists()
    assert claim_file(path) is None


def test_a_claim_that_is_let_go_of_is_free(tmp_path):
    claim = claim_file(tmp_path / "lock")
    assert claim is not None
    del claim
    assert claim_file(tmp_path / "lock") is not None


def test_another_process_holds_its_claim_until_it_releases_it(tmp_path, other):
    process, done = other
    assert claim_file(tmp_path / "lock") is None
    done.set()
    process.join()
    assert list(tmp_path.iterdir()) == []
    assert claim_file(tmp_path / "lock") is not None


def test_a_killed_process_holds_nothing(tmp_path, other):
    process, _ = other
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    claim = claim_file(tmp_path / "lock")
    assert claim is not None
    claim.release()
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_that_ends_does_not_end_the_claim(tmp_path):
    claim = claim_file(tmp_path / "lock")
    assert claim is not None
    child = CHILD.Process(target=claim.release)  # does nothing: the claim is not the child's
    child.start()
    child.join()
    assert child.exitcode == 0
    assert claim_file(tmp_path / "lock") is None
    claim.release()
    assert list(tmp_path.iterdir()) == []


def test_a_claim_in_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        claim_file(tmp_path / "file" / "lock")


def test_a_child_that_outlives_a_release_does_not_keep_the_folder(tmp_path):
    hold = hold_folder(tmp_path)
    assert hold is not None
    done = CHILD.Event()
    child = CHILD.Process(target=done.wait)  # has inherited the open folder
    child.start()
    try:
        assert claim_folder(tmp_path) is None
        hold.release()
        assert claim_folder(tmp_path) is not None
    finally:
        done.set()
        child.join()


def count(path, counter, rounds):
    for _ in range(rounds):
        while (claim := claim_file(path)) is None:
            pass
        counter.write_text(str(int(counter.read_text()) + 1))
        claim.release()


def test_many_that_claim_and_release_never_meet(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [CHILD.Process(target=count, args=(tmp_path / "lock", counter, 300)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert counter.read_text() == "1200"
    assert list(tmp_path.iterdir()) == [counter]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_locks_work_goes_on_and_nothing_may_be_removed(tmp_path, monkeypatch, number):
    def none(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", none)
    claims = [claim_file(tmp_path / "lock"), claim_file(tmp_path / "lock"), hold_folder(tmp_path)]
    assert claim_folder(tmp_path) is None
    for claim in claims:
        assert claim is not None
        claim.release()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_claimed_only_when_nobody_holds_it(tmp_path):
    first, second = hold_folder(tmp_path), hold_folder(tmp_path)
    assert first is not None
    assert second is not None
    first.release()
    assert claim_folder(tmp_path) is None
    second.release()
    assert claim_folder(tmp_path) is not None


def test_a_folder_that_is_not_there_is_neither_held_nor_claimed(tmp_path):
    assert hold_folder(tmp_path / "nowhere") is None
    assert claim_folder(tmp_path / "nowhere") is None


def test_a_folder_that_is_moved_away_meanwhile_is_not_held(tmp_path, monkeypatch):
    folder = tmp_path / "store"
    folder.mkdir()
    lock = fcntl.flock

    def moved_before(handle, how):
        folder.rename(tmp_path / "aside")
        lock(handle, how)

    monkeypatch.setattr(fcntl, "flock", moved_before)
    assert hold_folder(folder) is None
