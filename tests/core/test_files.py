"""Files that are complete or not there, and what killed writers of them leave."""

import subprocess
import sys
from pathlib import Path

import pytest

from aevlp.core.files import open_regular, remove_abandoned, whole_file, write_text

WRITER = """
import sys
from pathlib import Path
from aevlp.core.files import whole_file
with whole_file(Path(sys.argv[1])) as file:
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_name_that_no_file_can_have_is_an_error_of_the_system(tmp_path):
    for name in ("a\0b", "\ud800"):
        with pytest.raises(OSError, match="no name that a file can have"):
            open_regular(tmp_path / name)


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is removed there")
def test_only_what_a_dead_writer_left_is_removed(tmp_path):
    file = tmp_path / "labels[1].csv"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    other = tmp_path / ".other.csv.0.part"
    other.write_text("of another file")
    write_text(file, "first")
    assert len(list(tmp_path.glob(".labels*.part"))) == 1  # its writer lives
    writer.kill()
    writer.communicate()
    write_text(file, "second")
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, file.name]
    assert file.read_text() == "second"


def test_a_file_that_is_taken_for_a_leftover_at_once_is_made_again(tmp_path, monkeypatch):
    """Between the making of a file and its lock, another process can remove it."""
    fcntl = pytest.importorskip("fcntl")
    flock, left = fcntl.flock, [1]

    def removed_first(file, operation):
        if left and operation == fcntl.LOCK_EX:
            left.pop()
            next(tmp_path.glob(".*.part")).unlink()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    with whole_file(tmp_path / "a.txt") as file:
        file.write(b"all of it")
    assert (tmp_path / "a.txt").read_bytes() == b"all of it"
    assert not left


def test_a_finished_file_is_no_leftover_until_it_has_its_name(tmp_path, monkeypatch):
    """Another process that tidies up at the last moment must still see its lock."""
    pytest.importorskip("fcntl")
    replace = Path.replace

    def tidied_up_first(part, path):
        remove_abandoned(part)
        return replace(part, path)

    monkeypatch.setattr(Path, "replace", tidied_up_first)
    write_text(tmp_path / "a.txt", "all of it")
    assert (tmp_path / "a.txt").read_text() == "all of it"
