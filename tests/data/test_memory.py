"""Reading an image set of many images takes little more memory than their names, labels and scores."""

import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aevlp.data import read
from aevlp.data.annotations import Annotations, Answer, ScoredCells, ScoreKind
from aevlp.data.dataset import Paths
from aevlp.data.fingerprint import DIGEST
from aevlp.data.known_files import recall

IMAGES = 2000
CLASSES = ("cat", "dog", "fox")


def bytes_per_image(act: Callable[[], object]) -> float:
    """Return the peak of what Python and numpy allocate during a call, per image; the least of three calls.

    The interpreter's own tables, such as that of file names in paths, grow now and then.
    """
    peaks = []
    for _ in range(3):
        tracemalloc.start()
        try:
            act()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks) / IMAGES


@pytest.fixture
def images(tmp_path: Path) -> list[str]:
    names = [f"images/{number:06d}.jpg" for number in range(IMAGES)]
    (tmp_path / "images").mkdir()
    for name in names:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    return names


def test_a_table_of_names_and_tags(tmp_path, images):
    rows = [f"{name},{CLASSES[number % 3]}" for number, name in enumerate(images)]
    (tmp_path / "labels.csv").write_text("\n".join(["image,labels", *rows]))
    assert bytes_per_image(lambda: read(tmp_path, None)) < 500


def test_a_file_of_completed_labels(tmp_path, images):
    score = {"confidence": 0.25, "teacher": 0.5, "model": 0.125}
    states = {"proposed": {"dog": score}, "candidates": {"fox": score}, "accepted": [], "negatives": []}
    rows = [json.dumps({"image": name, "labels": ["cat"], **states}) for name in images]
    (tmp_path / "completed.jsonl").write_text("\n".join(rows))
    table = read(tmp_path / "completed.jsonl", None)
    assert len(table.annotations.scores) == 2 * IMAGES
    assert set(table.annotations.scores.predictors) == {"teacher", "model"}
    assert bytes_per_image(lambda: read(tmp_path / "completed.jsonl", None)) < 700


def test_the_memory_of_files_that_were_read(tmp_path, images):
    known = recall(Paths(tmp_path, tuple(images)), tmp_path / "memory")
    known.digests[:] = np.arange(1, IMAGES + 1).astype(f"S{DIGEST}")
    assert bytes_per_image(lambda: known.remember({})) < 150
    assert (recall(Paths(tmp_path, tuple(images)), tmp_path / "memory").digests == known.digests).all()


def test_a_part_of_the_annotations():
    rows = np.arange(IMAGES)
    scores = ScoredCells(
        rows=rows.astype(np.int32),
        columns=np.zeros(IMAGES, np.int32),
        kinds=np.full(IMAGES, ScoreKind.PROPOSED, np.int8),
        confidence=np.linspace(0, 1, IMAGES, dtype=np.float32),
        predictors={},
    )
    annotations = Annotations(frozenset({3, 5}), {(3, -1): Answer("ann"), (8, 2): Answer("bob")}, scores)
    part = annotations.part(rows[::-1][: IMAGES - 4])
    assert part.complete == {IMAGES - 6}  # row 5; row 3 is left out
    assert part.answers == {(IMAGES - 9, 2): Answer("bob")}
    assert part.scores.rows.tolist() == [IMAGES - 1 - row for row in range(4, IMAGES)]
    assert bytes_per_image(lambda: annotations.part(rows)) < 60
