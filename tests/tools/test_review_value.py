"""The simulated review, on a world of colours, and its table."""

import json
from pathlib import Path

import numpy as np
import pytest
from tools.review_value import Review, Row, by_class, draw, main

from aevlp.data.annotations import ScoredCells, ScoreKind
from aevlp.data.answers import AnswerStore
from aevlp.data.readers import read
from tests.colours import write_world
from tools import review_value


@pytest.fixture
def review(tmp_path) -> Review:
    drawn = draw(read(write_world(tmp_path / "world"), None), seed=0, images=30, tested=10)
    folder = drawn.write(tmp_path / "set")
    return Review(folder / "labels.csv", AnswerStore(folder / "answers.sqlite"), drawn.truth)


def scored(review: Review, confidence: float, kind: ScoreKind) -> ScoredCells:
    """Score all cells that are not known."""
    rows, columns = (each.astype(np.int32) for each in np.nonzero(review.labels == 0))
    count = len(rows)
    return ScoredCells(rows, columns, np.full(count, kind, np.int8), np.full(count, confidence, np.float32), {})


def test_a_grid_costs_one_key_and_one_for_each_exception(review):
    rows, columns = np.nonzero(review.labels == 0)
    there = review.truth[rows, columns]
    chosen = np.concatenate([np.flatnonzero(there)[:2], np.flatnonzero(~there)[:5]])
    review.settle(rows[chosen], columns[chosen])
    assert (review.units, review.keys) == (1, 3)
    assert review.store.effort().keys == 3
    assert (review.labels[rows[chosen], columns[chosen]] == np.where(there[chosen], 1, -1)).all()


def test_an_image_costs_one_key_and_one_for_each_change(review):
    assert (review.truth.sum(1) > 1).any()
    row = int(np.flatnonzero(review.truth.sum(1) > 1)[0])
    missing, absent = (np.flatnonzero((review.labels[row] == 0) & flags)[0] for flags in (review.truth[row], ~review.truth[row]))
    proposed = np.zeros(len(review.classes), bool)
    proposed[[missing, absent]] = True  # one right, one wrong
    review.complete(row, proposed=proposed)
    assert review.keys == 1 + (review.truth[row].sum() - 2) + 1
    other = int(np.flatnonzero((review.truth.sum(1) > 1) & ~review.is_complete)[0])
    review.complete(other, proposed=None)
    assert review.store.effort().keys == review.keys == review.truth[row].sum() + review.truth[other].sum()


def test_answers_that_count_reach_the_image_set(review):
    review.scores = scored(review, 0.4, ScoreKind.PROPOSED)
    before = review.f1()
    for _ in by_class(review, np.random.default_rng(0)):
        pass
    assert review.f1() == 1.0 > before
    table, foreign = review.store.apply(read(review.data, None))
    assert foreign == 0
    assert (np.array(table.labels)[: len(review.truth)] == np.where(review.truth, 1, -1)).all()


def test_the_curve_of_a_small_world(tmp_path, monkeypatch, backbone, capsys):
    """Everything is run as a user would: train, label with folds, answer, again."""
    monkeypatch.setattr(review_value, "POINTS", (0, 10))
    world, out = write_world(tmp_path / "world"), tmp_path / "value"
    words = [
        "run",
        "--world",
        world,
        "--name",
        "colours",
        "--teacher",
        "tests.colours:teacher",
        "--images",
        "30",
        "--tested",
        "10",
    ]
    words += ["--temperature", "0.1", "--epochs", "1", "--folds", "2", "--backbone", backbone, "--image-size", "32", "--out", out]
    main([str(word) for word in [*words, "--strategies", "queue by class", "plain labelling"]])
    rows: list[Row] = [json.loads(line) for line in (out / "value.jsonl").read_text().splitlines()]
    assert [(row["strategy"], row["point"]) for row in rows] == [
        *[("queue by class", 0), ("queue by class", 10)],
        *[("plain labelling", 0), ("plain labelling", 10)],
    ]
    assert all(row["f1"] > other["f1"] for other, row in zip(rows[::2], rows[1::2], strict=True))
    main(["table", str(out / "value.jsonl"), "--out", str(tmp_path / "table.md")])
    assert (tmp_path / "table.md").read_text().count("| colours | plain labelling | 1 | 0 %, ") == 1
    main(["plot", str(out / "value.jsonl"), "--out", str(tmp_path / "plot.png")])
    assert Path(tmp_path / "plot.png").stat().st_size > 5000
