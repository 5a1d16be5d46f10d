from collections.abc import Callable
from pathlib import Path

from aevlp.data import read

Pictures = Callable[[list[str]], Path]
Refusal = Callable[..., str]


def test_nothing_is_observed(pictures: Pictures) -> None:
    root = pictures(["b.png", "a.png"])
    (root / "classes.txt").write_text("dog\ncat\n")
    table = read(root)
    assert (table.kind, table.names, table.classes) == ("flat", ("a.png", "b.png"), ("dog", "cat"))
    assert table.labels.tolist() == [[0, 0], [0, 0]]


def test_without_class_names(pictures: Pictures, refusal: Refusal) -> None:
    root = pictures(["a.png"])
    assert refusal(root, "flat") == (
        f"{root}: the format 'flat' is a folder with images and a classes.txt; write one name per line"
    )
