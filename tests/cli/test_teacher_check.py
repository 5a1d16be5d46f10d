"""The teacher is passes at before the long part, and a useless one is told of everywhere."""

import json
import re

import pytest

from tests.cli.run import aevlp
from tests.colours import write_world


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_world(tmp_path_factory.mktemp("photos") / "world", train=60, test=0)


def test_the_teacher_is_checked_before_the_long_part(capsys, photos, small, passes, tmp_path, monkeypatch):
    monkeypatch.setattr("aevlp.damp.teacher_check.MOST_CHECKED", 20)
    answer = aevlp(capsys, "score", photos, *small, "--damp.draws", "2", "--observe", "given")
    assert answer.code == 0, answer.err
    assert sum(passes) == 120  # those of the check are not passes at again
    assert re.search(r"teacher check: it ranks the tag first in \d+ % of 20 images; chance \d+ %", answer.err)
    assert "WARNING" not in answer.err
    assert "the teacher's embeddings: " in answer.out
    assert answer.out.splitlines()[-1].startswith(f"next: aevlp train {photos} ")
    assert answer.out.endswith(" --out runs/first\n")
    for command in (["tune", "--out", tmp_path / "tuned.yaml"], ["label", "--out", tmp_path / "completed.csv"]):
        answer = aevlp(capsys, command[0], photos, *command[1:], *small, "--damp.draws", "2", "--observe", "given")
        assert "teacher check: it ranks the tag first in" in answer.err


def test_a_useless_teacher_is_told_of_in_terminal_report_and_card(capsys, photos, plain, tmp_path):
    options = [*plain, "--observe", "given", "--epochs", "1", "--report", "true"]
    answer = aevlp(capsys, "train", photos, "--out", tmp_path / "run", *options, "--teacher", "tests.colours:blind_teacher")
    assert answer.code == 0, answer.err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["teacher_check"]["is_useless"]
    (warning,) = [text for text in result["warnings"] if text.startswith("The teacher does not know these classes")]
    assert f"WARNING: {warning}" in answer.err  # before the long part
    assert f"WARNING: {warning}" in answer.out  # and at the end
    assert warning.split(":")[0] in (tmp_path / "run" / "report.html").read_text()
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "> **Warning.** The teacher does not know these classes" in card
    assert "| teacher check | the tag is first in " in card
    words = ["label", photos, "--run", tmp_path / "run", "--out", tmp_path / "completed.csv", "--observe", "given"]
    answer = aevlp(capsys, *words)
    assert answer.code == 0, answer.err
    assert answer.out.count("WARNING: The teacher does not know these classes") == 1


def test_nothing_is_checked_where_nothing_is_observed(capsys, photos, small, tmp_path):
    flat = tmp_path / "flat"
    flat.mkdir()
    for picture in sorted((photos / "images").iterdir())[:12]:
        (flat / picture.name).write_bytes(picture.read_bytes())
    (flat / "classes.txt").write_text("red\ngreen\nblue\n")
    answer = aevlp(capsys, "label", flat, "--out", tmp_path / "completed.csv", *small, "--observe", "given")
    assert answer.code == 0, answer.err
    assert "teacher check: left out, because no label is observed" in answer.err
