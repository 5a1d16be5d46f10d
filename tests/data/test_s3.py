"""A bucket of S3, served by moto: a real server and a real client, on this machine."""

import pytest

pytest.importorskip("s3fs", reason="needs s3fs")
pytest.importorskip("moto.server", reason="needs moto[server]")
pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'aevlp[datasets]'")

import fsspec
from moto.server import ThreadedMotoServer

from aevlp.core.errors import UserError
from aevlp.core.remote import location
from aevlp.data import read
from aevlp.data.images import bad_images
from aevlp.data.load import examine
from tests.kinds import as_folder, as_parquet, as_table, as_tar, colour_items


@pytest.fixture(scope="module")
def server():
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def bucket(server, monkeypatch):
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    system = fsspec.filesystem("s3", skip_instance_cache=True)
    system.mkdir("photos")
    yield system
    system.rm("photos", recursive=True)


@pytest.mark.parametrize("write", [as_folder, as_table, as_parquet, as_tar])
def test_a_set_in_a_bucket_is_that_on_the_disk(bucket, tmp_path, write):
    local = write(colour_items(tmp_path / "world"), tmp_path / "set")
    bucket.put(f"{local}/", f"photos/{write.__name__}/", recursive=True)
    here, there = read(local), read(location(f"s3://photos/{write.__name__}"))
    assert (here.names, here.classes, here.splits) == (there.names, there.classes, there.splits)
    assert (here.labels == there.labels).all()
    assert (here.digests == there.digests).all()
    assert bad_images(there.paths) == {}
    found, bad = examine(there.paths, tmp_path / "memory")
    assert (found == here.digests).all()
    assert bad == {}


def test_what_is_not_there(bucket):
    with pytest.raises(UserError, match=r"^s3://photos/nothing: no such file or folder"):
        read(location("s3://photos/nothing"))
    with pytest.raises(UserError, match=r"^s3://elsewhere/x: no such file or folder"):
        read(location("s3://elsewhere/x"))
