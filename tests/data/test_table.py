from pathlib import Path

import numpy as np
import pytest

from aevlp.data import ImageTable


def make(labels: np.ndarray, splits: tuple[str, ...] = ("train", "test")) -> ImageTable:
    return ImageTable(Path("root"), ("a/1.png", "2.png"), ("x", "y", "z"), labels, splits, "table")


def test_paths_are_under_the_root() -> None:
    assert list(make(np.zeros((2, 3), np.int8)).paths) == [Path("root/a/1.png"), Path("root/2.png")]


def test_a_reader_cannot_return_something_else() -> None:
    with pytest.raises(ValueError, match=r"labels must be int8\[2, 3\]"):
        make(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"labels must be int8\[2, 3\]"):
        make(np.zeros((3, 2), np.int8))
    with pytest.raises(ValueError, match="splits must name one of"):
        make(np.zeros((2, 3), np.int8), ("train", "valid"))
    with pytest.raises(ValueError, match="splits must name one of"):
        make(np.zeros((2, 3), np.int8), ("train",))


def test_the_truth_has_the_shape_of_the_labels() -> None:
    labels = np.zeros((2, 3), np.int8)
    with pytest.raises(ValueError, match=r"truth must be int8\[2, 3\]"):
        ImageTable(Path("root"), ("a", "b"), ("x", "y", "z"), labels, ("train", "test"), "table", truth=labels[:1])
