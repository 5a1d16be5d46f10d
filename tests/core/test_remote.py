"""Remote addresses as paths: asked through fsspec, and never written."""

import errno
import sys
from pathlib import Path, PurePath

import fsspec
import pytest

from aevlp.core.errors import UserError
from aevlp.core.files import whole_file
from aevlp.core.remote import RemotePath, joined, local_path, location, names_in


@pytest.fixture
def folder(tmp_path):
    system = fsspec.filesystem("memory")
    system.pipe_file(f"/{tmp_path.name}/a/1.txt", b"one\r\ntwo")
    system.pipe_file(f"/{tmp_path.name}/2.bin", b"0123456789")
    return location(f"memory://{tmp_path.name}")


@pytest.mark.parametrize("text", ["s3://bucket/a/b.csv", "hf://datasets/owner/name", "memory://x"])
def test_an_address_is_an_address_through_all_that_paths_do(text):
    path = location(text)
    assert isinstance(path, RemotePath)
    assert str(path) == path.as_posix() == text
    assert location(path) is path
    assert str(path / "c" / ".." / "d.jpg") == f"{text}/d.jpg"
    assert str((path / "e.jpg").with_name("f.jpg")) == f"{text}/f.jpg"
    assert (path / "e.jpg").parent == path
    assert str((path / "a" / "b.jpg").relative_to(path)) == "a/b.jpg"
    assert path.resolve() == path.absolute() == path.expanduser() == path
    assert location(Path(text)) == path  # whose slashes are lost


@pytest.mark.parametrize("text", ["photos", "/data/photos", "C:/photos", "a:b", "~/x", "file:///data/photos"])
def test_all_else_is_a_path_on_this_machine(text):
    assert not isinstance(location(text), RemotePath)
    assert location("file:///data/photos") == Path("/data/photos")


def test_a_name_beside_a_table_may_be_an_address(tmp_path):
    assert joined(tmp_path, "a/1.jpg") == tmp_path / "a/1.jpg"
    assert joined(tmp_path, "s3://b/1.jpg") == RemotePath("s3://b/1.jpg")
    assert str(joined(RemotePath("s3://b/x"), "y/1.jpg")) == "s3://b/x/y/1.jpg"


def test_files_and_folders(folder):
    assert folder.is_dir()
    assert not folder.is_file()
    assert (folder / "2.bin").is_file()
    assert not (folder / "3.bin").exists()
    assert [path.name for path in folder.iterdir()] == names_in(folder) == ["2.bin", "a"]
    assert (folder / "2.bin").stat().st_size == 10
    assert (folder / "2.bin").read_range(3, 4) == b"3456"
    assert (folder / "a" / "1.txt").read_text() == "one\ntwo"
    with (folder / "a" / "1.txt").open(encoding="utf-8", newline="") as file:
        assert list(file) == ["one\r\n", "two"]
    with (folder / "2.bin").open("rb") as file:
        file.seek(-2, 2)
        assert file.read() == b"89"
    with pytest.raises(FileNotFoundError):
        (folder / "3.bin").read_bytes()


def test_the_version_changes_with_the_content(folder):
    before = (folder / "2.bin").version()
    assert before == (folder / "2.bin").version()
    fsspec.filesystem("memory").pipe_file(f"/{folder.name}/2.bin", b"0123456780")
    assert (folder / "2.bin").version() != before


def test_nothing_is_written(folder):
    for act in (
        lambda: (folder / "new").mkdir(),
        lambda: (folder / "2.bin").unlink(),
        lambda: (folder / "2.bin").write_bytes(b""),
        lambda: (folder / "2.bin").write_text(""),
        lambda: (folder / "2.bin").open("w"),
        lambda: (folder / "2.bin").rename(PurePath("x")),
        lambda: (folder / "new").touch(),
    ):
        with pytest.raises(OSError, match="a remote address is only read") as caught:
            act()
        assert caught.value.errno == errno.EROFS
    with (
        pytest.raises(UserError, match=r"new\.txt: cannot be written \(a remote address is only read\)"),
        whole_file(folder / "new.txt"),
    ):
        pass
    assert names_in(folder) == ["2.bin", "a"]
    with pytest.raises(UserError, match=r"^memory://.*: a remote address is only read, and only as an image set"):
        local_path(folder)


def test_an_unknown_kind_of_address():
    with pytest.raises(UserError, match=r"^nothing://x/y: no known kind of address \(ValueError: Protocol not known: nothing\)"):
        location("nothing://x/y").exists()


def test_what_reads_an_address_may_have_to_be_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(UserError, match=r"^s3://b/x: a package that reads s3:// addresses is missing \(Install s3fs"):
        location("s3://b/x").exists()


def test_without_a_network_the_hub_is_asked_for_otherwise():
    with pytest.raises(UserError) as caught:
        location("hf://datasets/nobody/nothing").is_dir()
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("hf://datasets/nobody/nothing: cannot be reached (")
    assert message.endswith("(hf download NAME --repo-type dataset --local-dir DIR) and give DIR")
