"""What commands print, to a reader who leaves."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.table import Table

from aevlp.config.catalogue import method_table
from aevlp.config.methods import METHODS
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.config.sweep import Sweep, results_table
from aevlp.core.tables import aligned, drawn, named_lines, next_steps, terminal_or_markdown
from aevlp.experiments.bench.measurement import Measurement
from aevlp.experiments.bench.run import table as bench_table
from aevlp.store.inventory import Stored
from aevlp.store.inventory import table as store_table

FRAME = re.compile(r"[┏━┳┓┃┡╇┩│├┼┤└─┴┘]")


def pieces(text):
    """The words of a table; a path or damp.top_k has several, since it may break after a slash or a dot."""
    return set(re.split(r"\s+|(?<=/)|(?<=[a-z]\.)", FRAME.sub(" ", text))) - {""}


def test_the_next_commands_can_be_typed_as_they_stand():
    said = next_steps(["predict", Path("my runs/first"), "PATH"], ["check", Path("photos")])
    assert said == "next: aevlp predict 'my runs/first' PATH\n      aevlp check photos"


@pytest.mark.parametrize("words", [["methods"], ["methods", "--markdown"], ["--help"]], ids=["table", "text", "overview"])
def test_a_reader_may_leave_before_the_end(words):
    """As `aevlp methods | head -1` does."""
    command = [sys.executable, "-m", "aevlp", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    assert (process.wait(), said) == (0, "")


def wide_table():
    table = Table(title="the title of a table", caption="a caption of several words that goes on for longer than sixty letters")
    table.add_column("method")
    table.add_column("what it is")
    for name in ("test mAP", "validation mAP", "accumulated precision", "accumulated recall"):
        table.add_column(name, justify="right")
    for method in ("zero-shot-views", "consensus"):
        table.add_row(method, "the teacher's scores of the image and its tiles, with fitted thresholds", *["73.36 ± 0.34"] * 4)
    return table


def sweep_table():
    sweep = Sweep("default", ["zero-shot-views", "boostlu+ll-r"], {"damp.top_k": [2, 3], "damp.global_threshold": [0.25, 0.5]})
    quality = dict.fromkeys(("precision", "recall", "accumulated_precision", "accumulated_recall"), 0.7123)
    result = {"mAP": 71.23456, "mAP_present": 72.1, "val_mAP": 70.98765, "val_labels": "incomplete", "pseudo_labels": quality}
    outcomes = [(trial, {**result, "mAP": 70.0 + trial.seed}) for trial in sweep.trials(3)]
    return results_table(sweep, outcomes, title="photos", caption="every run: sweep/results.csv; report: sweep/report.html")


def speed_table():
    row = Measurement(
        *("rate of scoring image files", "rate of the bare teacher on as many ready-made views", 0.9512, 0.9234, 0.9788),
        at_least=0.95,
        absolute={"images/s of scoring": 1234.5, "images/s of the bare teacher": 1298.1},
    )
    return bench_table({"scoring": [row], "predict-memory": [row, row]})


def stores():
    known = Stored(Path("0123456789abcdef01234567"), "openai/clip-vit-base-patch16", 9_000_000_000, 1.8e9, (17, 512), 1_281_167)
    broken = Stored(Path("76543210fedcba9876543210"), "", 12, 1.8e9, unusable="written by another version of aevlp")
    return store_table(Path("/home/somebody/.cache/aevlp/views"), [known, broken])


def methods():
    return method_table(list(METHODS.values()), read_recipe(recipe_file("default")), "common")


@pytest.mark.parametrize("width", [120, 80, 60])
@pytest.mark.parametrize("make", [wide_table, sweep_table, speed_table, stores, methods], ids=lambda make: make.__name__)
def test_no_table_cuts_a_word_or_leaves_the_terminal(monkeypatch, make, width):
    monkeypatch.setenv("COLUMNS", "10000")
    whole = drawn(make())
    monkeypatch.setenv("COLUMNS", str(width))
    text = drawn(make())
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    assert pieces(text) == pieces(whole)


def test_a_wide_table_comes_in_parts_that_repeat_what_tells_rows_apart(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    table = Table("", "temperature")
    for name in ("precision", "recall", "F0.5", "positives lost"):
        table.add_column(name, justify="right")
    for temperature in ("0.01", "0.02"):
        table.add_row("best at", temperature, *["0.123 ± 0.001"] * 4)
    heads = [line for line in drawn(table).splitlines() if "temperature" in line]
    assert len(heads) > 1  # so that the two rows of each part can be told apart


def test_a_name_is_text_and_not_markup(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert aligned([("[bold]a", "1"), ("b", "20")]) == ["[bold]a   1", "b        20"]
    table = terminal_or_markdown(["name"], [["[red]x"]])
    assert isinstance(table, Table)
    assert "[red]x" in drawn(table)
    monkeypatch.delenv("COLUMNS")
    assert terminal_or_markdown(["name"], [["a|b"]]) == "| name |\n| --- |\n| a\\|b |\n"


def test_lists_of_names_wrap_in_a_terminal_alone(monkeypatch):
    items = [("one", "a text of several words"), ("three", "another")]
    assert named_lines(items) == "one    a text of several words\nthree  another"
    monkeypatch.setenv("COLUMNS", "20")
    assert named_lines(items) == "one    a text of\n       several words\nthree  another"
