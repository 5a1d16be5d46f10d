"""Image sets like a user's, and the tables about the claims on them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tools.claims import draw_set, main

from aevlp.data.dataset import ImageTable

CLASSES = tuple(f"class {number}" for number in range(12))


@pytest.fixture
def images() -> ImageTable:
    labels = np.where(np.random.default_rng(0).random((3000, len(CLASSES))) < 0.15, 1, -1).astype(np.int8)
    names = tuple(f"{number}.jpg" for number in range(len(labels)))
    return ImageTable(Path("world"), names, CLASSES, labels, ("train",) * len(labels), "table")


@pytest.mark.parametrize("seed", range(6))
def test_a_set_shows_one_true_label_per_image_and_shares_no_image_between_splits(images, seed, tmp_path):
    drawn = draw_set(images, seed, len(CLASSES))
    assert 8 <= len(drawn.columns) <= 12
    assert drawn.truth[np.arange(len(drawn.train)), drawn.shown].all()
    used = np.concatenate([drawn.train, drawn.complete, drawn.test])
    assert len(set(used)) == len(used)
    assert (50 <= len(drawn.complete) <= 200) if seed % 2 == 0 else len(drawn.complete) == 0
    counts = np.bincount(drawn.shown, minlength=len(drawn.columns))
    assert (counts.max() - counts.min() <= 1) == drawn.is_collected_by_class == (seed % 3 == 0)
    folder = drawn.write(tmp_path / "set")
    rows = list(csv.DictReader((folder / "labels.csv").open()))
    assert [row["split"] for row in rows].count("val") == len(drawn.complete)
    assert {";" in row["labels"] for row in rows if row["split"] == "train"} == {False}


def test_the_tables_count_what_lies_inside_its_interval(tmp_path, capsys):
    about = {"set": "photos", "classes": 8, "images": 200}
    claim = {**about, "what": "label", "basis": "measured", "complete": 50, "new": 9, "recall": 0.5, "absent": 90}
    claim |= {"low": 0.5, "high": 0.7, "recall_low": 0.4, "recall_high": 0.6, "absent_low": 0.99, "absent_high": 1.0}
    claim |= {"lost_low": 0.0, "lost_high": 0.1, "lost": 0.02, "absent_share": 0.4}
    unverified = {**about, "what": "label", "basis": "unverified", "complete": 0, "new": 9, "claimed": 0.6, "recall": 0.5}
    unverified |= {"low": 0.3, "high": 0.9, "absent": 0, "absent_precision": None}
    thresholds = {**about, "what": "thresholds", "basis": "complete", "complete": 50, "half": 60.0, "common": 61.0, "low": 0.8}
    rows = [
        {**claim, "seed": 0, "precision": 0.6, "absent_precision": 0.995},
        {**claim, "seed": 2, "precision": 0.8, "absent_precision": 0.98, "lost": 0.2, "absent_share": 0.6},
        {**claim, "seed": 2, "precision": 0.95, "what": "min-precision 0.9", "absent_precision": 0.995},
        {**claim, "seed": 0, "new": 0, "precision": None, "what": "min-precision 0.9", "basis": "none", "absent_precision": 1.0},
        {**unverified, "seed": 1, "precision": 0.2},
        {**unverified, "seed": 3, "precision": 0.4},
        {**thresholds, "seed": 0, "per_class": 63.0, "high": 0.95, "precision": 0.9},
        {**thresholds, "seed": 2, "per_class": 61.0, "high": 0.85, "precision": 0.9},
    ]
    file = tmp_path / "claims.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(["table", str(file)])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| photos")]
    assert lines == [
        "| photos | 2 | 1 of 3 | 3 of 3 | 0.20 | 2, 1, 1 | 1 of 2 | 1 of 2 | 50 % | 11.0 % | 1 of 2 |",
        "| photos | 2 | 2 | 0.60 | 0.30 | 1 of 2 | - | - | 0 of 0 |",
        "| photos | 2 | 60.0 | 61.0 | 62.0 | +2.0 ± 1.4 | 100 % | 1 of 2 |",
    ]
