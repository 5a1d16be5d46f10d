"""An audit: how it is drawn, and what it measures."""

from dataclasses import replace

import numpy as np
import pytest
from tools.audit_coverage import KINDS, Kind, SimulatedSet, simulate, trial

from aevlp.core.errors import UserError
from aevlp.data.annotations import Annotations
from aevlp.inference.review.audit import draw_audit, measure_audit


@pytest.fixture(scope="module")
def drawn() -> SimulatedSet:
    return simulate(Kind(300, 10, 0.15, 2.0, 0.05, 0.5), np.random.default_rng(0))


def test_every_image_has_the_same_chance_and_every_stratum_its_share(drawn):
    cells = drawn.table.annotations.scores
    confidence = np.bincount(cells.rows, cells.confidence, 300)
    counts = np.zeros(300)
    for seed in range(400):
        rows = draw_audit(drawn.table, 40, seed)
        assert len(set(rows.tolist())) == 40
        surer = (confidence[rows] > np.median(confidence[confidence > 0])).mean()
        assert surer == pytest.approx((confidence > np.median(confidence[confidence > 0])).mean(), abs=0.05)
        counts[rows] += 1
    assert np.abs(counts / 400 - 40 / 300).max() < 5 * np.sqrt(40 / 300 / 400)
    first = np.mean([confidence[draw_audit(drawn.table, 40, seed)[:5]].mean() for seed in range(400)])
    assert first == pytest.approx(confidence.mean(), rel=0.1)  # random order, not that of the strata


def test_complete_images_and_other_splits_are_not_audited(drawn):
    splits = ("train",) * 100 + ("val",) * 100 + ("test",) * 100
    table = replace(drawn.table, splits=splits, annotations=Annotations(frozenset(range(50))))
    assert sorted(draw_audit(table, 1000, 0).tolist()) == list(range(50, 100))
    with pytest.raises(UserError, match="no image is left to audit"):
        draw_audit(replace(table, annotations=Annotations(frozenset(range(100)))), 10, 0)


def test_figures_are_those_of_the_answered_images(drawn):
    rows = draw_audit(drawn.table, 100, 0)
    answered = rows[:60]
    found = measure_audit(drawn.audited(answered), rows, 0.5)
    assert (found.answered, found.drawn) == (60, 100)
    cells = drawn.table.annotations.scores
    own = np.isin(cells.rows, answered)
    to_find = (drawn.truth & (drawn.table.labels != 1))[answered].sum()
    assert found.precision.value == pytest.approx(drawn.right[own].mean())
    assert found.recall.value == pytest.approx(drawn.right[own].sum() / to_find)
    assert sum(band.proposed for band in found.bands) == len(cells)
    assert sum(band.audited for band in found.bands) == own.sum()
    assert sum(band.right for band in found.bands) == drawn.right[own].sum()
    assert [band.low for band in found.bands] == sorted((band.low for band in found.bands), reverse=True)


def test_labels_that_were_known_before_are_not_to_be_found(drawn):
    rows = np.arange(100)
    table = drawn.audited(rows)
    known = drawn.truth & ~_proposed(drawn)
    assert measure_audit(table, rows, 0.9, known=known).recall.value == 1.0
    recall = measure_audit(table, rows, 0.9).recall.value
    assert recall is not None
    assert recall < 1.0


def _proposed(drawn: SimulatedSet) -> np.ndarray:
    cells, found = drawn.table.annotations.scores, np.zeros(drawn.truth.shape, bool)
    found[cells.rows, cells.columns] = True
    return found


def test_nothing_is_uncertain_once_all_images_are_audited(drawn):
    rows = np.arange(300)
    found = measure_audit(drawn.audited(rows), rows, 0.9)
    assert (found.precision.low, found.precision.high) == pytest.approx((drawn.precision, drawn.precision))
    assert (found.recall.low, found.recall.high) == pytest.approx((drawn.recall, drawn.recall))
    half = measure_audit(drawn.audited(rows[:150]), rows[:150], 0.9)
    assert half.precision.low <= drawn.precision <= half.precision.high


def test_without_an_answer_nothing_is_measured(drawn):
    found = measure_audit(drawn.table, np.arange(50), 0.9)
    assert (found.answered, found.precision.value, found.recall.value, found.line) == (0, None, None, None)


def test_a_line_is_drawn_where_the_audit_shows_the_precision(drawn):
    strong = simulate(Kind(1000, 20, 0.1, 4.0, 0.1, 0.5), np.random.default_rng(1))
    rows = draw_audit(strong.table, 200, 0)
    found = measure_audit(strong.audited(rows), rows, 0.9)
    assert found.line is not None
    above = strong.table.annotations.scores.confidence >= found.line
    assert strong.right[above].mean() >= 0.9
    assert found.more_images is None
    stricter = measure_audit(strong.audited(rows), rows, 0.95)
    assert stricter.line is None or stricter.line >= found.line


def test_where_no_line_can_be_drawn_it_says_what_would_help():
    strong = simulate(KINDS["strong predictors"], np.random.default_rng(1))
    rows = draw_audit(strong.table, 20, 0)
    few = measure_audit(strong.audited(rows), rows, 0.95)
    assert few.line is None
    assert few.more_images is not None
    more = draw_audit(strong.table, 20 + 2 * few.more_images, 0)
    assert measure_audit(strong.audited(more), more, 0.95).line is not None

    poor = simulate(KINDS["poor predictors"], np.random.default_rng(1))
    rows = draw_audit(poor.table, 200, 0)
    found = measure_audit(poor.audited(rows), rows, 0.99)
    assert (found.line, found.more_images) == (None, None)


@pytest.mark.parametrize("kind", ["weak predictors", "few proposals", "proposals in few images"])
def test_the_intervals_hold_the_truth_in_most_audits(kind):
    trials = [trial(KINDS[kind], seed) for seed in range(10_000, 10_100)]
    assert sum(each.is_precision_covered for each in trials) >= 85
    assert sum(each.is_recall_covered for each in trials) >= 85
    assert np.mean([each.recall_width for each in trials]) < 0.3
