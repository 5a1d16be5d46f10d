"""The checkpoint file: replaced whole, or left as it was; a damaged one is noticed, and the one before stands in for it."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from aevlp.core.errors import UserError
from aevlp.core.files import whole_file
from aevlp.training import checkpoint


class _Interrupted:
    """A file whose writer is interrupted at a call, as by Ctrl-C."""

    def __init__(self, file, calls: int) -> None:
        self._file, self._calls = file, calls

    def write(self, content) -> int:
        self._calls -= 1
        if self._calls < 0:
            raise KeyboardInterrupt
        return self._file.write(content)

    def flush(self) -> None:
        self._file.flush()


@pytest.mark.parametrize("calls", [0, 1, 3, 5])
def test_an_interrupt_is_raised_as_one_and_the_checkpoint_before_stays(tmp_path, monkeypatch, calls):
    path = tmp_path / "last.pt"
    checkpoint.save_checkpoint(path, {"epoch": 1, "weights": torch.ones(3)})

    @contextmanager
    def interrupted(path):
        with whole_file(path) as file:
            yield _Interrupted(file, calls)

    monkeypatch.setattr(checkpoint, "whole_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save_checkpoint(path, {"epoch": 2, "weights": torch.zeros(3)})
    found = checkpoint.load_checkpoint(path)
    assert found is not None
    assert found["epoch"] == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def path(tmp_path):
    """The checkpoints of two epochs."""
    for epoch in (1, 2):
        checkpoint.save_checkpoint(tmp_path / "last.pt", {"epoch": epoch, "weights": torch.full((1000,), float(epoch))})
    return tmp_path / "last.pt"


def flip(file, position):
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)


def test_a_checkpoint_is_one_that_torch_reads(path):
    assert torch.load(path, weights_only=True)["epoch"] == 2
    assert torch.load(path.with_name("previous.pt"), weights_only=True)["epoch"] == 1


def test_a_flipped_bit_anywhere_is_noticed(path, caplog):
    whole = path.read_bytes()
    checksum = range(len(whole) - 32, len(whole) - 16)  # the mark: without it, the rest is read as that of an older version
    for position in np.random.default_rng(0).integers(len(whole), size=50).tolist():
        path.write_bytes(whole)
        flip(path, position)
        found = checkpoint.load_checkpoint(path)
        assert found is not None
        assert found["epoch"] == (2 if position in checksum else 1)
    assert f"{path.parent}: last.pt is damaged (its checksum differs); going on from the epoch before" in caplog.text


DAMAGED = [b"", b"no checkpoint", b"PK\x03\x04" + b"\0" * 100]


@pytest.mark.parametrize("content", DAMAGED)
def test_the_one_before_stands_in_for_a_damaged_one(path, caplog, content):
    path.write_bytes(content)
    found = checkpoint.load_checkpoint(path)
    assert found is not None
    assert found["epoch"] == 1
    assert len(caplog.messages) == 1
    assert "last.pt is damaged" in caplog.text


def test_a_kill_between_the_two_renames_loses_nothing(path, caplog):
    path.rename(path.with_name("previous.pt"))
    found = checkpoint.load_checkpoint(path)
    assert found is not None
    assert found["epoch"] == 2
    assert "last.pt is missing; going on from" in caplog.text


@pytest.mark.parametrize("content", [*DAMAGED, "a list"])
def test_if_none_can_be_read_one_line_says_so(path, content):
    for file in (path, path.with_name("previous.pt")):
        torch.save([1], file) if isinstance(content, str) else file.write_bytes(content)
    with pytest.raises(UserError) as caught:
        checkpoint.load_checkpoint(path)
    message = str(caught.value)
    assert "\n" not in message
    assert "weights_only" not in message
    assert "last.pt is damaged" in message
    assert "and previous.pt is damaged" in message
    assert message.endswith("no checkpoint is left: start anew with --overwrite")


def test_a_checkpoint_of_an_older_version_is_read(path):
    torch.save({"epoch": 5}, path)
    assert checkpoint.load_checkpoint(path) == {"epoch": 5}
