"""--prompts: a table instead of the bare class names, as a user types it."""

import json

import pytest

from aevlp.config.recipe import read_recipe
from tests.cli.run import aevlp, refused
from tests.colours import COLOURS


@pytest.fixture
def table(tmp_path):
    """A table that tells the teacher what it is told without one."""
    file = tmp_path / "colours.yaml"
    file.write_text("".join(f"{name}: a photo of a {name}.\n" for name in reversed(COLOURS)))
    return file


def figures_of(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(line["loss"], line["pseudo_labels"]) for line in lines]


def test_a_table_of_the_usual_prompts_changes_nothing_and_another_one_costs_no_teacher_pass(
    capsys,
    world,
    small,
    table,
    tmp_path,
    passes,
):
    words = ["train", world, *small, "--epochs", "1"]
    assert aevlp(capsys, *words, "--out", tmp_path / "bare").code == 0
    assert passes
    passes.clear()
    assert aevlp(capsys, *words, "--out", tmp_path / "same", "--prompts", table).code == 0
    assert figures_of(tmp_path / "same") == figures_of(tmp_path / "bare")
    text = table.read_text().replace("red: a photo of a red.", 'red: ["something red", "something blue"]')
    table.write_text(text)
    assert aevlp(capsys, *words, "--out", tmp_path / "mixed", "--prompts", table).code == 0
    assert figures_of(tmp_path / "mixed") != figures_of(tmp_path / "bare")
    assert passes == []


@pytest.mark.parametrize("method", ["aevlp", "vlpl"])
def test_a_run_records_its_table_and_goes_on_only_with_the_same_prompts(
    capsys, world, plain, table, tmp_path, monkeypatch, method
):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    words = ["train", world, *plain, "--teacher", "tests.colours:teacher", "--method", method, "--epochs", "1"]
    assert aevlp(capsys, *words, "--out", run, "--prompts", table.name).code == 0
    assert read_recipe(run / "config.yaml")["teacher.prompts"] == str(table)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert aevlp(capsys, "train", world, "--recipe", run / "config.yaml", "--out", tmp_path / "again").code == 0
    assert figures_of(tmp_path / "again") == figures_of(run)

    (run / "result.json").unlink()  # as if it had been killed before its end
    original = table.read_text()
    table.write_text(original.replace("a photo of a red.", "a drawing of a red."))
    message = refused(capsys, "train", world, "--out", run, "--resume")
    assert message == (
        f"--resume: the prompts in {table} are not those that the run was started with; restore those, or start a new run"
    )
    assert "teacher.prompts was" in refused(capsys, *words, "--out", run, "--resume", "--prompts", "none")
    table.write_text(f"# the same, with a remark\n{original}")
    assert aevlp(capsys, "train", world, "--out", run, "--resume").code == 0


def test_a_table_of_other_classes_is_refused_before_the_teacher_is_loaded(capsys, world, small, table, tmp_path):
    # There is no such teacher: had it been looked for, it would be the one to complain about.
    words = ["train", world, *small, "--teacher", "tests.nowhere:teacher", "--out", tmp_path / "run"]
    table.write_text(table.read_text().replace("yellow:", "yelow:"))
    end = "edit the table, or use the class names themselves with --prompts none"
    assert refused(capsys, *words, "--prompts", table) == (
        f"--prompts {table}: no prompt for 1 of the 6 classes (yellow) and prompts for 1 class that the image set does not have "
        f"(yelow) (did you mean 'yellow'?); {end}"
    )
    table.write_text("".join(line for line in table.read_text().splitlines(True) if "yel" not in line))
    assert refused(capsys, *words, "--prompts", table) == f"--prompts {table}: no prompt for 1 of the 6 classes (yellow); {end}"
    table.write_text(f"{table.read_text()}yellow: a yellow\nbeige: a beige\n")
    message = refused(capsys, *words, "--prompts", table)
    assert message == f"--prompts {table}: prompts for 1 class that the image set does not have (beige); {end}"
    assert not (tmp_path / "run").exists()


def test_the_recipe_of_a_benchmark_on_other_classes_says_how_to_use_their_names(capsys, world, small, tmp_path):
    words = ["train", world, "--recipe", "voc", *small, "--epochs", "1", "--out", tmp_path / "run"]
    assert refused(capsys, *words) == (
        "--prompts voc: no prompt for 6 of the 6 classes (black, blue, green, ...) and prompts for 20 classes that the image set "
        "does not have (aeroplane, bicycle, bird, ...); write a table of your own, or use the class names themselves with "
        "--prompts none"
    )
    assert aevlp(capsys, *words, "--prompts", "none").code == 0
    assert read_recipe(tmp_path / "run" / "config.yaml")["teacher.prompts"] is None


def test_a_wrong_table_is_refused_before_anything_is_read(capsys, tmp_path, small):
    file = tmp_path / "own.yaml"
    file.write_text("red: a red\nred: a crimson\n")
    message = refused(capsys, "score", tmp_path / "nowhere", *small, "--prompts", file)
    assert message == f"{file}, line 2: class 'red' is already on line 1; remove one, or list both prompts in it"
    message = refused(capsys, "tune", tmp_path / "nowhere", *small, "--prompts", "cocoa")
    assert message.startswith("--prompts cocoa: no such table or file (did you mean 'coco'?)")


@pytest.mark.parametrize("command", [["compare", "--methods", "gr,aevlp"], ["reproduce", "fig2", "--quick"]])
def test_a_table_of_other_classes_is_refused_before_a_sweep_begins(capsys, world, small, tmp_path, command):
    """Not when it comes to the first method that asks the teacher."""
    place = ["--data", world] if "fig2" in command else [world]
    words = [*command, *place, "--seeds", "1", *small, "--prompts", "voc", "--out", tmp_path / "sweep"]
    assert refused(capsys, *words).startswith("--prompts voc: no prompt for 6 of the 6 classes")
    assert not list(tmp_path.glob("sweep/*"))


def test_tables_can_be_compared(capsys, world, small, table, tmp_path):
    words = ["compare", world, "--methods", "aevlp", "--seeds", "1", *small, "--epochs", "1"]
    answer = aevlp(capsys, *words, "--prompts", f"none,{table}", "--out", tmp_path / "sweep")
    assert answer.code == 0, answer.err
    configs = sorted((tmp_path / "sweep").glob("*/config.yaml"))
    assert {read_recipe(config)["teacher.prompts"] for config in configs} == {None, str(table)}
    assert len({str(figures_of(config.parent)) for config in configs}) == 1
