import csv
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from aevlp.data.dataset import single_positives


def shuffled(items: list[int], rng: np.random.RandomState) -> list[int]:
    """Shuffle as `RandomState.shuffle` does, spelt out: exchanges from the back, indices by masked rejection of 32-bit words."""
    items = list(items)
    for last in reversed(range(1, len(items))):
        mask = (1 << last.bit_length()) - 1
        other = last + 1
        while other > last:
            other = int.from_bytes(rng.bytes(4), "little") & mask
        items[last], items[other] = items[other], items[last]
    return items


def naive(labels: list[list[int]]) -> list[list[int]]:
    rng = np.random.RandomState(1200)
    kept = []
    for row in labels:
        positives = shuffled([i for i, value in enumerate(row) if value == 1], rng)
        shuffled([i for i, value in enumerate(row) if value != 1], rng)
        kept.append([int(positives[:1] == [i]) for i in range(len(row))])
    return kept


@pytest.mark.parametrize("values", [[0, 1], [-1, 1], [-1, 0, 1]])
def test_the_protocol_spelt_out(values: list[int]) -> None:
    labels = np.random.RandomState(0).choice(values, (200, 11)).astype(np.int8)
    labels[::17] = 0  # rows without a positive
    observed = single_positives(labels)
    assert observed.dtype == np.int8
    assert observed.tolist() == naive(labels.tolist())


def test_one_positive_of_each_row_that_has_one_and_nothing_else() -> None:
    labels = np.random.RandomState(1).choice([-1, 1], (300, 5)).astype(np.int8)
    before = labels.copy()
    observed = single_positives(labels)
    assert np.array_equal(labels, before)
    assert set(np.unique(observed)) == {0, 1}
    assert np.array_equal(observed.sum(axis=1), (labels == 1).any(axis=1))
    assert (labels[observed == 1] == 1).all()


def test_every_positive_has_its_chance() -> None:
    observed = single_positives(np.ones((4000, 4), dtype=np.int8))
    assert np.abs(observed.mean(axis=0) - 0.25).max() < 0.03


def test_no_rows() -> None:
    assert single_positives(np.zeros((0, 3), dtype=np.int8)).shape == (0, 3)


def test_the_published_draw_on_voc_2012(tmp_path: Path) -> None:
    archive = Path(os.environ.get("AEVLP_SHARED", ""), "data", "voc2012-224.tar")
    if "AEVLP_SHARED" not in os.environ or not archive.is_file():
        pytest.skip("set AEVLP_SHARED to a folder with data/voc2012-224.tar to compare with the draw on PASCAL VOC 2012")
    with tarfile.open(archive) as tar:
        for name in ("labels.csv", "single_positive.csv", "classes.txt"):
            tar.extract(f"voc2012-224/{name}", tmp_path, filter="data")
    folder = tmp_path / "voc2012-224"
    classes = (folder / "classes.txt").read_text().split()

    def train_rows(file: str) -> tuple[list[str], np.ndarray]:
        with (folder / file).open(newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if row["split"] == "train"]
        labels = np.array([[name in row["labels"].split(";") for name in classes] for row in rows], dtype=np.int8)
        return [row["image"] for row in rows], labels

    names, full = train_rows("labels.csv")
    expected_names, expected = train_rows("single_positive.csv")
    assert names == expected_names
    assert len(names) == 5717
    assert np.array_equal(single_positives(full), expected)
