"""The order of a review, against a plain version of it."""

import time
from collections import defaultdict

import numpy as np
import pytest

from aevlp.data.annotations import ScoredCells, ScoreKind
from aevlp.inference.review.queue import RARE, suggest_grids, suggest_images


def scored(cells: list[tuple[int, int, ScoreKind, float]], **predictors: list[float]) -> ScoredCells:
    """Make scored cells of (row, column, kind, confidence)."""
    return ScoredCells(
        np.array([cell[0] for cell in cells], np.int32),
        np.array([cell[1] for cell in cells], np.int32),
        np.array([cell[2] for cell in cells], np.int8),
        np.array([cell[3] for cell in cells], np.float32),
        {name: np.array(values, np.float32) for name, values in predictors.items()},
    )


def random_cells(count: int, rows: int, columns: int, seed: int = 0) -> ScoredCells:
    rng = np.random.default_rng(seed)
    predictors = {name: rng.random(count, dtype=np.float32) for name in ("teacher", "model")}
    predictors["model"][rng.random(count) < 0.2] = np.nan
    return ScoredCells(
        rng.integers(0, rows, count).astype(np.int32),
        rng.integers(0, columns, count).astype(np.int32),
        rng.integers(0, len(ScoreKind), count).astype(np.int8),
        rng.random(count, dtype=np.float32),
        predictors,
    )


def change(scores: ScoredCells, cell: int) -> float:
    confidence = float(scores.confidence[cell])
    return 1 - confidence if scores.kinds[cell] in (ScoreKind.PROPOSED, ScoreKind.DOUBTED) else confidence


def gain(scores: ScoredCells, positives: np.ndarray, cell: int) -> float:
    values = [float(each[cell]) for each in scores.predictors.values() if not np.isnan(each[cell])]
    disagreement = max(values) - min(values) if values else 0.0
    return change(scores, cell) * (1 + disagreement) * (1 + RARE / (RARE + positives[scores.columns[cell]]))


@pytest.mark.parametrize("size", [1, 5, 24])
def test_grids_are_those_of_a_plain_version(size):
    scores, positives = random_cells(700, 100, 6), np.array([0, 3, 9, 10, 50, 400])
    is_open = np.random.default_rng(1).random(700) < 0.8
    runs = defaultdict(list)
    for cell in np.flatnonzero(is_open).tolist():
        key = (int(scores.columns[cell]), scores.kinds[cell] == ScoreKind.DOUBTED, scores.confidence[cell] < 0.5)
        runs[key].append(cell)
    expected = {}
    for (column, *_), cells in runs.items():
        cells.sort(key=lambda cell: -scores.confidence[cell])
        grids = -(-len(cells) // size)
        for part in range(grids):
            own = [cell for place, cell in enumerate(cells) if place * grids // len(cells) == part]
            there = sum(float(scores.confidence[cell]) for cell in own)
            cost = 1 + min(there, len(own) - there)
            expected[tuple(own)] = (column, sum(gain(scores, positives, cell) for cell in own), cost, 2 * there >= len(own))
    found = suggest_grids(scores, is_open, positives, size=size)
    assert {tuple(grid.cells.tolist()) for grid in found} == set(expected)
    for grid in found:
        column, worth, cost, accepts = expected[tuple(grid.cells.tolist())]
        assert (grid.column, grid.accepts) == (column, accepts)
        assert (grid.gain, grid.cost) == pytest.approx((worth, cost), rel=1e-5)
        assert 0 < len(grid.cells) <= size
    rates = [grid.gain / grid.cost for grid in found]
    assert rates == sorted(rates, reverse=True)
    first = suggest_grids(scores, is_open, positives, size=size, most=3)
    assert [each.cells.tolist() for each in first] == [each.cells.tolist() for each in found[:3]]


def test_images_are_those_of_a_plain_version():
    scores, positives = random_cells(700, 40, 6), np.array([0, 3, 9, 10, 50, 400])
    is_open = np.random.default_rng(1).random(700) < 0.8
    is_open[scores.rows == 7] = False
    found = suggest_images(scores, is_open, positives)
    assert {image.row for image in found} == set(range(40)) - {7}
    for image in found:
        own = np.flatnonzero(is_open & (scores.rows == image.row)).tolist()
        assert image.gain == pytest.approx(sum(gain(scores, positives, cell) for cell in own), rel=1e-5)
        assert image.cost == pytest.approx(1 + sum(change(scores, cell) for cell in own), rel=1e-5)
    rates = [image.gain / image.cost for image in found]
    assert rates == sorted(rates, reverse=True)
    assert suggest_images(scores, is_open, positives, most=3) == found[:3]


def test_the_reason_says_what_is_expected():
    proposed = [(row, 0, ScoreKind.PROPOSED, 0.625) for row in range(24)]
    (grid,) = suggest_grids(scored(proposed), np.ones(24, bool), np.array([100]), size=24)
    assert (grid.reason, grid.accepts) == ("24 proposed labels, about 9 of them wrong", True)

    candidates = [(row, 0, ScoreKind.CANDIDATE, 0.25) for row in range(8)]
    (grid,) = suggest_grids(scored(candidates), np.ones(8, bool), np.array([3]), size=24)
    assert grid.reason == "8 not proposed, about 2 of them missing; rare class: 3 confirmed so far"
    assert not grid.accepts

    disputed = scored([(0, 0, ScoreKind.PROPOSED, 0.5)], teacher=[0.1], model=[0.9])
    (grid,) = suggest_grids(disputed, np.ones(1, bool), np.array([100]), size=24)
    assert grid.reason == "1 proposed label, about 0 of them wrong; teacher and model disagree"
    disputed = scored([(0, 0, ScoreKind.PROPOSED, 0.5)], teacher=[0.1], likeness=[0.5], model=[0.9])
    (grid,) = suggest_grids(disputed, np.ones(1, bool), np.array([100]), size=24)
    assert grid.reason.endswith("; teacher, likeness and model disagree")

    doubted = scored([(5, 0, ScoreKind.DOUBTED, 0.01)], teacher=[0.01], model=[0.02])
    (image,) = suggest_images(doubted, np.ones(1, bool), np.array([100]))
    assert (image.row, image.reason) == (5, "1 label doubted by both predictors")


def test_what_is_wrong_rare_or_disputed_comes_first():
    cells = [
        (0, 0, ScoreKind.PROPOSED, 0.9),
        (1, 1, ScoreKind.PROPOSED, 0.6),
        (2, 2, ScoreKind.PROPOSED, 0.6),
        (3, 3, ScoreKind.PROPOSED, 0.6),
    ]
    scores = scored(cells, teacher=[0.9, 0.6, 0.6, 0.2], model=[0.9, 0.6, 0.6, 0.9])
    positives = np.array([500, 500, 0, 500])
    assert [grid.column for grid in suggest_grids(scores, np.ones(4, bool), positives, size=24)] == [2, 3, 1, 0]
    assert [image.row for image in suggest_images(scores, np.ones(4, bool), positives)] == [2, 3, 1, 0]


def test_nothing_open_is_nothing_to_do():
    scores = random_cells(10, 5, 2)
    assert suggest_grids(scores, np.zeros(10, bool), np.zeros(2, np.intp), size=24) == []
    assert suggest_images(scores, np.zeros(10, bool), np.zeros(2, np.intp)) == []


def test_two_million_cells_of_a_thousand_classes_take_little_time():
    scores, positives = random_cells(2_000_000, 100_000, 1000), np.arange(1000)
    begin = time.process_time()
    grids = suggest_grids(scores, np.ones(len(scores), bool), positives, size=24, most=1000)
    images = suggest_images(scores, np.ones(len(scores), bool), positives, most=1000)
    assert (len(grids), len(images)) == (1000, 1000)
    assert time.process_time() - begin < 6  # about a second on two cores of 2020; a plain loop takes minutes
