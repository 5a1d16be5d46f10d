"""The state of a review, without a browser."""

import numpy as np
import pytest

from aevlp.data.annotations import ScoreKind
from aevlp.data.answers import ACCEPTED, REJECTED
from aevlp.data.load import DataOptions, read_answered
from aevlp.inference.review import seats
from aevlp.inference.review.plan import make_plan
from aevlp.inference.review.session import TooLate
from tests.inference.review.made import CLASSES, open_review, rows_of_grid, truly_has, values, write_set

ANNA, BEN = ("window-of-anna", "anna"), ("window-of-ben", "ben")


def settle(session, person, grid, marked=(), *, left=(), accepts=None):
    accepts = grid.accepts if accepts is None else accepts
    return session.settle(*person, grid.cells.tolist(), list(marked), list(left), accepts=accepts, keys=1, seconds=2.0)


def test_a_settled_grid_accepts_the_rest_and_rejects_the_marked(data):
    session = open_review(data)
    grid = session.grid(*ANNA, CLASSES.index("cat"))
    assert 1 <= len(grid.cells) <= 12
    confidence = session.state.scores.confidence[grid.cells]
    assert (np.diff(confidence) <= 0).all()
    marked = grid.cells[:2].tolist()
    assert settle(session, ANNA, grid, marked, accepts=True) == len(grid.cells)
    names = [f"images/{row:03d}.png" for row in rows_of_grid(session, grid.cells)]
    expected = {(name, "cat"): REJECTED if place < 2 else ACCEPTED for place, name in enumerate(names)}
    assert values(session) == expected
    assert not session.state.is_open[grid.cells].any()


def test_a_settled_grid_rejects_the_rest_and_leaves_open_what_nobody_is_sure_of(data):
    session = open_review(data)
    grid = session.grid(*ANNA, 0)
    marked, left = grid.cells[0], grid.cells[1]
    assert settle(session, ANNA, grid, [marked], left=[left], accepts=False) == len(grid.cells) - 1
    assert sorted(values(session).values()) == [REJECTED] * (len(grid.cells) - 2) + [ACCEPTED]
    assert np.flatnonzero(session.state.is_open[grid.cells]).tolist() == [1]
    assert left not in session.grid(*ANNA, 0).cells  # it comes again at the end


def test_all_open_cells_are_asked_about_once(data):
    session = open_review(data)
    asked = []
    while (grid := session.grid(*ANNA, None)) is not None:
        asked += grid.cells.tolist()
        settle(session, ANNA, grid)
    assert (
        sorted(asked) == np.flatnonzero(np.isin(session.state.scores.kinds, [ScoreKind.PROPOSED, ScoreKind.CANDIDATE])).tolist()
    )
    progress = session.progress("anna")
    assert (progress.answered, progress.total) == (len(asked), len(asked))


def test_a_restart_goes_on_where_it_ended(data):
    session = open_review(data, audit=8)
    for _ in range(3):
        settle(session, ANNA, session.grid(*ANNA, None))
    session.answer_image(*ANNA, "image", session.image(*ANNA, "image"), [], complete=True, keys=1, seconds=1)
    session.undo(*ANNA)
    again = open_review(data, audit=8)
    assert (again.state.labels == session.state.labels).all()
    assert (again.state.is_open == session.state.is_open).all()
    assert (again.state.is_complete == session.state.is_complete).all()
    assert (again.state.positives == session.state.positives).all()
    assert again.audit_rows == session.audit_rows
    assert again.fingerprint == session.fingerprint


def test_undo_has_no_end_and_is_each_persons_own(data):
    session = open_review(data)
    before = session.state.is_open.copy()
    grids = []
    for person in (ANNA, BEN, ANNA, ANNA, BEN):
        grids.append((person, session.grid(*person, None)))
        settle(session, person, grids[-1][1], grids[-1][1].cells[:1])
    row = session.image(*ANNA, "image")
    session.answer_image(*ANNA, "image", row, [(0, 1), (1, -1)], complete=None, keys=2, seconds=3)
    undone = session.undo(*ANNA)
    assert (undone.kind, undone.row, undone.answers) == ("image", row, 2)
    for person, grid in reversed([each for each in grids if each[0] == ANNA]):
        undone = session.undo(*person)
        assert (undone.kind, undone.answers) == ("grid", len(grid.cells))
        assert sorted(undone.grid.cells.tolist()) == sorted(grid.cells.tolist())
        assert undone.marked == (grid.cells[0],)
    assert session.undo(*ANNA) is None
    bens = [grid for person, grid in grids if person == BEN]
    assert set(np.flatnonzero(before & ~session.state.is_open)) == {cell for grid in bens for cell in grid.cells.tolist()}
    while session.undo(*BEN) is not None:
        pass
    assert (session.state.is_open == before).all()
    assert values(session) == {}


def test_an_undone_answer_gives_way_to_the_one_before(data):
    session = open_review(data)
    row = session.image(*ANNA, "image")
    session.answer_image(*ANNA, "image", row, [(2, 1)], complete=None, keys=1, seconds=1)
    session.answer_image(*ANNA, "image", row, [(2, -1)], complete=None, keys=1, seconds=1)
    assert session.state.labels[row, 2] == -1
    session.undo(*ANNA)
    assert session.state.labels[row, 2] == 1
    session.undo(*ANNA)
    assert session.state.labels[row, 2] == session.table.labels[row, 2]


def test_people_never_meet_on_an_image(data):
    session = open_review(data)
    rng = np.random.default_rng(0)
    people = [(f"window-number-{number}", f"person {number}") for number in range(4)]
    for _ in range(80):
        person = people[rng.integers(4)]
        if rng.random() < 0.5:
            grid = session.grid(*person, None)
            session.grid(*person, None, ahead=True)
            if grid is not None and rng.random() < 0.5:
                settle(session, person, grid)
        else:
            row = session.image(*person, "image")
            session.image(*person, "image", ahead=True)
            if row is not None and rng.random() < 0.5:
                session.leave_image(*person, row)
        held = [row for each in people for row in _holds(session, each)]
        assert len(held) == len(set(held))
    assert held


def _holds(session, person):
    seat = session.seats.seat(*person)
    return set(seat.rows) | {int(row) for each in seat.grids for row in rows_of_grid(session, each.cells)}


def test_what_somebody_holds_is_free_again_after_a_rest(data):
    session = open_review(data)
    now = 0.0
    session.seats._clock = lambda: now
    annas = session.grid(*ANNA, 0)
    assert not set(annas.cells) & set(session.grid(*BEN, 0).cells)
    with pytest.raises(TooLate, match="somebody else looks at them"):
        settle(session, BEN, annas)
    now += seats.HOLD - 1
    session.grid(*BEN, 0)
    assert set(session.grid(*ANNA, 0).cells) == set(annas.cells)  # active again
    now += seats.HOLD + 1
    assert set(annas.cells) & {cell for _ in range(9) for cell in _settled(session, BEN)}
    with pytest.raises(TooLate, match="answered already"):
        settle(session, ANNA, annas)


def _settled(session, person):
    grid = session.grid(*person, 0)
    if grid is None:
        return []
    settle(session, person, grid)
    return grid.cells.tolist()


def test_a_grid_is_answered_after_a_restart_of_the_server(data):
    grid = open_review(data).grid(*ANNA, None)
    again = open_review(data)
    assert settle(again, ANNA, grid) == len(grid.cells)
    with pytest.raises(TooLate, match="answered already"):
        settle(again, ANNA, grid)
    assert len(values(again)) == len(grid.cells)


def test_a_complete_image_rejects_what_was_shown_and_is_asked_about_no_more(data):
    session = open_review(data)
    row = session.image(*ANNA, "image")
    other = (row + 1) % 4
    session.answer_image(*ANNA, "image", row, [(other, 1)], complete=True, keys=2, seconds=1)
    labels = session.answered_table().labels[row].tolist()
    assert labels == [1 if truly_has(row, column) else -1 for column in range(4)]
    assert row in session.answered_table().annotations.complete
    assert len(session.state.unanswered(row)) == 0
    session.leave_image(*ANNA, row)
    seen = set()
    while (found := session.image(*ANNA, "image")) is not None and found not in seen:
        seen.add(found)
        session.leave_image(*ANNA, found)
    assert row not in seen
    assert len(seen) == 39


def test_doubted_labels_are_asked_about_until_they_are_answered(tmp_path):
    data = write_set(tmp_path / "set", doubted=True)
    session = open_review(data)
    doubted = np.flatnonzero(session.state.scores.kinds == ScoreKind.DOUBTED)
    assert session.state.is_open[doubted].all()
    row, column = int(session.state.scores.rows[doubted[0]]), int(session.state.scores.columns[doubted[0]])
    session.answer_image(*ANNA, "image", row, [(column, 1)], complete=None, keys=1, seconds=1)
    assert session.state.is_open[doubted].tolist() == [False, *[True] * (len(doubted) - 1)]
    assert not open_review(data).state.is_open[doubted[0]]
    session.undo(*ANNA)
    assert session.state.is_open[doubted].all()


def test_the_audit_is_drawn_once_and_never_asked_about_elsewhere(data):
    session = open_review(data, audit=100)
    assert len(session.audit_rows) == 10  # a quarter of the images
    assert open_review(data, audit=5).audit_rows == session.audit_rows
    asked = set()
    while (grid := session.grid(*ANNA, None)) is not None:
        asked |= set(rows_of_grid(session, grid.cells).tolist())
        settle(session, ANNA, grid)
    assert not asked & set(session.audit_rows)
    assert asked == set(range(40)) - set(session.audit_rows)
    with pytest.raises(TooLate, match="kept for the audit"):
        session.image(*ANNA, "image", session.audit_rows[0])
    assert session.figures() is None
    with pytest.raises(TooLate, match="answer more of it"):
        session.accept_above(*ANNA, None, 3, keys=1, seconds=1)


def audit_all(session):
    order = []
    while (row := session.image(*ANNA, "audit")) is not None:
        order.append(row)
        session.answer_image(*ANNA, "audit", row, [((row + 1) % 4, 1)], complete=True, keys=2, seconds=4)
        session.leave_image(*ANNA, row)
    return order


def test_an_answered_audit_is_measured_and_becomes_validation(tmp_path):
    data = write_set(tmp_path / "set", images=400)
    session = open_review(data, audit=100, precision=0.9)
    assert audit_all(session) == session.audit_rows
    figures = session.figures()
    assert (figures.answered, figures.drawn, figures.precision.value) == (100, 100, 1.0)
    table = read_answered(data, DataOptions())
    assert [row for row, split in enumerate(table.splits) if split == "val"] == sorted(session.audit_rows)

    assert figures.line is not None
    expected = int(session.above(figures.line, None).sum())
    assert expected > 100
    with pytest.raises(TooLate, match=f"there are now {expected} labels above the line and not 7"):
        session.accept_above(*ANNA, None, 7, keys=1, seconds=1)
    before = session.state.is_open.sum()
    assert session.accept_above(*ANNA, None, expected, keys=1, seconds=1) == expected
    assert before - session.state.is_open.sum() == expected
    assert session.undo(*ANNA).answers == expected
    assert session.state.is_open.sum() == before


def test_the_rate_and_what_fits_follow_the_person(data):
    session = open_review(data)
    assert session.progress("anna").rate is None
    plans = [make_plan(session, *ANNA, minutes) for minutes in (0.2, 1, 1000)]
    counts = [plan.by_class.labels for plan in plans]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == session.state.total
    assert all(plan.by_class.seconds <= 60 * minutes for plan, minutes in zip(plans, (0.2, 1, 1000), strict=True))
    assert plans[-1].by_image.count == 40
    assert plans[0].grids[0].reason
    before = session.progress("anna").seconds_left / (session.progress("anna").total - session.progress("anna").answered)
    for _ in range(3):
        grid = session.grid(*ANNA, None)
        session.settle(*ANNA, grid.cells.tolist(), [], [], accepts=True, keys=1, seconds=120)
    progress = session.progress("anna")
    assert progress.rate == pytest.approx(60 * progress.answered / 360)
    assert progress.seconds_left / (progress.total - progress.answered) > 2 * before
    assert session.progress("ben").rate is None


def test_skipped_grids_come_again_at_the_end(data):
    session = open_review(data)
    first = session.grid(*ANNA, None)
    session.skip_grid(*ANNA, first.cells.tolist())
    asked = []
    while (grid := session.grid(*ANNA, None)) is not None:
        asked.append(grid)
        settle(session, ANNA, grid)
    assert set(first.cells) == set(asked[-1].cells)


@pytest.mark.parametrize("mode", ["image", "audit"])
def test_images_that_are_passed_by_come_again_in_turn(data, mode):
    session = open_review(data, audit=8)
    seen = []
    for _ in range(3 * 40):
        seen.append(session.image(*ANNA, mode))
        session.leave_image(*ANNA, seen[-1])
    rows = {row for row in range(40) if (row in session.audit_rows) == (mode == "audit")}
    assert set(seen[: len(rows)]) == set(seen[len(rows) : 2 * len(rows)]) == rows


def test_memory_of_windows_is_bounded(data, monkeypatch):
    monkeypatch.setattr(seats, "MOST_SEATS", 5)
    session = open_review(data)
    for number in range(50):
        session.grid(f"window-number-{number}", f"person {number}", None)
        session.progress(f"person {number}")
    assert len(session.seats._seats) == 5
    assert len(session.seats._paces) == 5
