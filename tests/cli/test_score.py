"""`aevlp score`: several at once, and what happens to damaged packs."""

import re
import shutil

import pytest

from aevlp.core.errors import UserError
from aevlp.store import inventory
from aevlp.store.embedding_store import EmbeddingStore
from tests.cli.run import aevlp, refused, start
from tests.colours import write_world
from tests.store.test_inventory import write_older


def embeddings_in(root):
    """(draw, digest) -> embedding, of everything that is stored."""
    (stored,) = inventory.stores(root)
    return {
        (draw, digest): embedding.tobytes()
        for draw, index in stored.indexes().items()
        for pack in index.packs
        for digest, embedding in zip(pack.digests.tolist(), pack.map(), strict=True)
    }


def computed(answer):
    return [int(n.replace(",", "")) for n in re.findall(r"teacher embeddings: .* images.*, ([\d,]+) computed", answer)]


@pytest.mark.soak
def test_two_runs_started_together_share_the_work(capsys, small, tmp_path):
    world, store = write_world(tmp_path / "world", train=60, test=0), tmp_path / "views"
    words = ["score", world, *small, "--epochs", "8", "--damp.draws", "8"]
    words += ["--teacher.batch_size", "1", "--teacher", "tests.colours:slow_teacher"]
    together = [start(*words, "--store", store) for _ in range(2)]
    answers = [process.communicate()[1] for process in together]
    assert [process.returncode for process in together] == [0, 0], answers
    shares = [computed(err) for err in answers]
    assert all(shares), answers
    assert sum(map(sum, shares)) == 8 * 60  # none of them twice
    assert aevlp(capsys, "store", "verify", "--store", store).code == 0
    assert not list(store.rglob("*.lock"))
    assert not list(store.rglob("*.part"))
    assert not list(store.rglob("*.claims"))

    assert aevlp(capsys, *words, "--store", tmp_path / "alone").code == 0
    assert embeddings_in(store) == embeddings_in(tmp_path / "alone")


def test_two_runs_on_sets_that_overlap_compute_each_image_once(small, tmp_path):
    """The second set has two thirds of the images of the first, under other names and in another order."""
    first, store = write_world(tmp_path / "first", train=60, test=0), tmp_path / "views"
    second = write_world(tmp_path / "second", train=60, test=0, seed=1)
    for number in range(40):
        shutil.copy(first / "images" / f"{number:03d}.png", second / "images" / f"{59 - number:03d}.png")
    words = [*small, "--epochs", "4", "--damp.draws", "4", "--teacher.batch_size", "1"]
    words += ["--teacher", "tests.colours:slow_teacher", "--store", store]
    together = [start("score", world, *words) for world in (first, second)]
    answers = [process.communicate()[1] for process in together]
    assert [process.returncode for process in together] == [0, 0], answers
    shares = [sum(computed(err)) for err in answers]
    assert sum(shares) == 4 * 80
    assert min(shares) > 0
    assert len(embeddings_in(store)) == 4 * 80


def test_a_damaged_pack_is_found_named_and_made_again(capsys, world, small, tmp_path):
    store = tmp_path / "views"
    words = ["score", world, *small, "--store", store]
    assert aevlp(capsys, *words).code == 0
    before = embeddings_in(store)
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
    assert len(computed(answer.err)) == 1
    assert embeddings_in(store) == before


@pytest.mark.parametrize("spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_a_pack_that_is_gone_or_empty_is_made_again(capsys, world, small, tmp_path, spoil):
    words = ["score", world, *small, "--store", tmp_path / "views"]
    assert aevlp(capsys, *words).code == 0
    before = embeddings_in(tmp_path / "views")
    spoil(sorted((tmp_path / "views").rglob("*.npy"))[1])
    assert len(computed(aevlp(capsys, *words).err)) == 1
    assert embeddings_in(tmp_path / "views") == before


def test_a_store_of_an_older_version_is_mentioned_while_something_is_computed(capsys, world, small, tmp_path):
    older = write_older(tmp_path / "views")
    words = ["score", world, *small, "--store", tmp_path / "views"]
    said = "stores of version 0.6.0 or older are not read, their images are computed anew"
    answer = aevlp(capsys, *words)
    assert answer.err.count(said) == 1
    assert "aevlp store prune KEY --yes removes them (00000000)" in answer.err
    assert said not in aevlp(capsys, *words).err
    assert older.is_dir()


def test_an_error_gives_back_what_was_claimed(capsys, world, small, tmp_path, monkeypatch):
    """In this very process, too, where a second attempt would otherwise wait for the first for ever."""
    words = ["score", world, *small, "--store", tmp_path / "views"]

    def full(*_):
        raise UserError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddingStore, "write", full)
        assert refused(capsys, *words) == "the disk is full"
    assert not list((tmp_path / "views").rglob("*.lock"))
    assert not list((tmp_path / "views").rglob("*.claims"))
    assert aevlp(capsys, *words).code == 0
