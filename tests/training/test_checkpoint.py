"""The checkpoint file: replaced whole, or left as it was."""

from contextlib import contextmanager

import pytest
import torch

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
