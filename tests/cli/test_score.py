"""`aevlp score`: several at once, and what happens to damaged shards."""

import json
import re

from aevlp.core.errors import UserError
from aevlp.store.embedding_store import EmbeddingStore
from tests.cli.run import aevlp, refused, start
from tests.colours import write_world


def shards_in(store):
    return {path.relative_to(store): path.read_bytes() for path in store.rglob("*.npy")}


def test_two_runs_started_together_share_the_work(capsys, small, tmp_path):
    world, store = write_world(tmp_path / "world", train=60, test=0), tmp_path / "views"
    words = ["score", world, *small, "--epochs", "8", "--damp.draws", "8"]
    words += ["--teacher.batch_size", "1", "--teacher", "tests.colours:slow_teacher"]
    together = [start(*words, "--store", store) for _ in range(2)]
    answers = [process.communicate()[1] for process in together]
    assert [process.returncode for process in together] == [0, 0], answers
    shares = [int(n) for err in answers for n in re.findall(r"teacher embeddings: .* (\d+) batches computed", err)]
    assert len(shares) == 2, answers
    (manifest,) = store.glob("*/manifest.json")
    assert sum(shares) == 8 * json.loads(manifest.read_text())["images"]  # none of them twice: a batch is an image
    assert aevlp(capsys, "store", "verify", "--store", store).out == "8 shards of 1 store: all intact\n"
    assert not list(store.rglob("*.lock"))
    assert not list(store.rglob("*.part"))

    assert aevlp(capsys, *words, "--store", tmp_path / "alone").code == 0
    assert shards_in(store) == shards_in(tmp_path / "alone")


def test_a_damaged_shard_is_found_named_and_made_again(capsys, world, small, tmp_path):
    store = tmp_path / "views"
    words = ["score", world, *small, "--store", store]
    assert aevlp(capsys, *words).code == 0
    before = shards_in(store)
    damaged = sorted(store.rglob("*.npy"))[1]
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)

    answer = aevlp(capsys, "store", "verify", "--store", store)
    assert answer.code == 2
    assert str(damaged) in answer.out + answer.err

    answer = aevlp(capsys, *words)
    assert answer.code == 0
    assert f"{damaged}: damaged" in answer.err
    assert re.search(r"teacher embeddings: \d+ images, [1-9]\d* batches computed", answer.err)
    assert shards_in(store) == before


def test_an_error_gives_back_what_was_claimed(capsys, world, small, tmp_path, monkeypatch):
    """In this very process, too, where a second attempt would otherwise wait for the first for ever."""
    words = ["score", world, *small, "--store", tmp_path / "views"]

    def full(*_):
        raise UserError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddingStore, "write", full)
        assert refused(capsys, *words) == "the disk is full"
    assert not list((tmp_path / "views").rglob("*.lock"))
    assert aevlp(capsys, *words).code == 0
