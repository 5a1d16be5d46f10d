"""Runs a command and kills its own process, as `kill -9` does, at a chosen moment: python -m tests.cli.killed MOMENT WORDS..."""

import functools
import os
import shutil
import signal
import sys
from pathlib import Path

import torch

from aevlp.cli.main import main
from aevlp.losses import LOSSES
from aevlp.store.embedding_store import EmbeddingStore
from aevlp.training import loop
from aevlp.training.run_folder import RunFolder


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(number: int, function, instead=die):
    """The function, until the call with that number, which does something else."""
    calls = 0

    def counted(*words, **options):
        nonlocal calls
        calls += 1
        return (instead if calls == number else function)(*words, **options)

    return counted


def half_a_checkpoint(state, file) -> None:
    file.write(b"half of it")
    file.flush()
    die()


def scoring() -> None:
    EmbeddingStore.write = at_call(2, EmbeddingStore.write)  # type: ignore[method-assign]


def batch(number: int = 4) -> None:
    """By default the second batch of the second epoch, where there are two in each."""
    for name, loss in LOSSES.items():
        object.__setattr__(LOSSES[name], "function", functools.wraps(loss.function)(at_call(number, loss.function)))


def third_epoch() -> None:
    batch(6)


def checkpoint() -> None:
    torch.save = at_call(2, torch.save, half_a_checkpoint)


def model() -> None:
    """Between the old model's removal and the new one's arrival."""
    removed = shutil.rmtree

    def remove(path, **options):
        removed(path, **options)
        if Path(path).name == "model":
            die()

    shutil.rmtree = remove  # type: ignore[assignment]


def before_checkpoint() -> None:
    monkeypatched = vars(loop)
    monkeypatched["save_checkpoint"] = at_call(3, monkeypatched["save_checkpoint"])


def result() -> None:
    RunFolder.write_result = die  # type: ignore[method-assign]


MOMENTS = {f.__name__: f for f in (scoring, batch, third_epoch, checkpoint, model, before_checkpoint, result)}

if __name__ == "__main__":
    MOMENTS[sys.argv[1]]()
    main(sys.argv[2:])
