"""`aevlp audit`: from "unverified" to "measured"."""

import csv
from pathlib import Path

import numpy as np
import pytest

from aevlp.data.annotations import COMPLETE
from aevlp.data.answers import ACCEPTED, REJECTED, AnswerStore, GivenAnswer
from aevlp.data.readers import read
from aevlp.inference.review.audit import draw_audit
from tests.cli.run import aevlp, refused
from tests.colours import COLOURS, write_world

TEACHER = ["--teacher", "tests.colours:teacher", "--damp.temperature", "0.1", "--device", "cpu"]


@pytest.fixture(scope="module")
def truth(tmp_path_factory) -> dict[str, set[str]]:
    """The labels of the images of `tags`."""
    folder = write_world(tmp_path_factory.mktemp("truth") / "world", train=80)
    with (folder / "labels.csv").open(newline="") as file:
        return {row["image"]: set(row["labels"].split(";")) for row in csv.DictReader(file) if row["split"] == "train"}


@pytest.fixture
def tags(tmp_path, truth) -> Path:
    """An image set with one tag per image, none of it fully labelled."""
    folder, rng = write_world(tmp_path / "tags", train=80), np.random.default_rng(0)
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "labels", "split"])
        writer.writerows([name, rng.choice(sorted(labels)), "train"] for name, labels in truth.items())
    return folder


def answer(store: AnswerStore, name: str, labels: set[str]) -> None:
    """Answer an image completely."""
    answers = [GivenAnswer(name, colour, ACCEPTED if colour in labels else REJECTED) for colour in COLOURS]
    store.record("ann", [*answers, GivenAnswer(name, COMPLETE, ACCEPTED)], kind="audit")


def test_an_audit_turns_unverified_into_measured(capsys, tags, truth):
    completed = tags / "completed.jsonl"
    first = aevlp(capsys, "label", tags / "labels.csv", "--out", completed, *TEACHER)
    assert ", unverified (" in first.out, first

    table, store = read(completed, None), AnswerStore(tags / "answers.sqlite")
    drawn = store.keep_audit([table.names[row] for row in draw_audit(table, 30, seed=0)])
    for name in drawn[:20]:
        answer(store, name, truth[name])
    shown = aevlp(capsys, "audit", completed)
    assert shown.code == 0, shown.err
    assert "audit: 20 of 30 images answered" in shown.out
    assert f"next: aevlp review {completed}" in shown.out

    for name in drawn[20:]:
        answer(store, name, truth[name])
    shown = aevlp(capsys, "audit", completed, "--precision", "0.5")
    row_of = {name: row for row, name in enumerate(table.names)}
    records: dict[int, set[str]] = {row: set() for row in range(len(table.names))}
    cells = table.annotations.scores
    for row, column, kind in zip(cells.rows, cells.columns, cells.kinds, strict=True):
        if kind == 0:
            records[int(row)].add(table.classes[column])
    right = [colour in truth[name] for name in drawn for colour in records[row_of[name]]]
    assert f"precision of the new labels: {100 * np.mean(right):.0f} % (90 % interval " in shown.out
    assert "recall of the new labels: " in shown.out
    assert "new labels keep a precision of 50 % by the lower end of the interval" in shown.out
    assert f"next: aevlp label {completed} --out {tags / 'completed-next.jsonl'}" in shown.out
    advice = aevlp(capsys, "audit", completed, "--precision", "0.97").out
    assert "images could show one, if they are like these; the audit has 0 left, so look at the proposals in grids" in advice

    again = tags / "again.jsonl"
    second = aevlp(capsys, "label", tags / "labels.csv", "--out", again, *TEACHER)
    assert "measured on 30 fully labelled images" in second.out
    assert "proposed after the 30 images of the audit were answered" in aevlp(capsys, "audit", again).out


def test_what_cannot_be_audited_is_refused(capsys, tags, truth):
    completed = tags / "completed.jsonl"
    aevlp(capsys, "label", tags / "labels.csv", "--out", completed, *TEACHER)
    assert "nobody has answered yet; begin an audit on the page of aevlp review" in refused(capsys, "audit", completed)
    assert not (tags / "answers.sqlite").exists()
    store = AnswerStore(tags / "answers.sqlite")
    assert "no audit has been drawn" in refused(capsys, "audit", completed)
    store.keep_audit(["elsewhere.png"])
    assert "none of the 1 images of the audit is in" in refused(capsys, "audit", completed)
    assert "holds no proposed labels to judge" in refused(capsys, "audit", tags / "labels.csv")
    assert "--precision must be above 0" in refused(capsys, "audit", completed, "--precision", "2")
