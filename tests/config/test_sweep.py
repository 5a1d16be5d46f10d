import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from aevlp.config.sweep import Failure, Sweep, csv_text, results_table, row_label
from aevlp.core.errors import UserError
from aevlp.core.processes import environment_of_job


def names(methods, choices, seeds=1) -> list[str]:
    return [trial.name for trial in Sweep("default", methods, choices).trials(seeds)]


def result(**figures) -> dict:
    pseudo = dict.fromkeys(("precision", "recall", "accumulated_precision", "accumulated_recall"))
    usual = {"mAP": 50.0, "mAP_present": 50.0, "val_mAP": 40.0, "val_labels": "complete", "best_epoch": 1, "epochs": 2}
    return {**usual, "pseudo_labels": pseudo, "images_per_second": 9.0, **figures}


def shown(table) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_every_combination_is_trained_with_every_seed():
    found = names(["aevlp"], {"damp.draws": [1, 2], "train.epochs": [3, 4], "damp.top_k": [5]}, seeds=2)
    assert len(found) == len(set(found)) == 8
    assert "aevlp-damp.draws=2-train.epochs=3-1" in found
    assert all(name.endswith("-0") for name in found[:4])  # the first seed's come first


def test_a_method_that_an_option_does_not_concern_is_trained_once():
    choices = {"damp.draws": [1, 2], "loss.w1": [2.0, 10.0], "loss.q3": [0.5, 0.9]}
    assert names(["an"], choices) == ["an-0"]
    assert names(["gr"], choices) == ["gr-loss.w1=2-0", "gr-loss.w1=10-0"]
    assert len(names(["aevlp"], choices)) == 8
    assert len(names(["gpr+none"], choices)) == 4
    assert names(["an"], {"teacher.name": ["a", "b"], "train.epochs": [1, 2]}) == ["an-train.epochs=1-0", "an-train.epochs=2-0"]


def test_an_option_reaches_the_methods_that_it_concerns():
    one, other = Sweep("default", ["gr", "aevlp"], {"loss.q3": [0.5], "loss.w1": [7.0], "damp.top_k": [9]}).trials(1)
    assert (one.name, other.name) == ("gr-0", "aevlp-0")
    assert one.config.loss.w1 == 7.0  # type: ignore[attr-defined]
    assert (other.config.loss.q3, other.config.source.top_k) == (0.5, 9)  # type: ignore[attr-defined]


def test_a_wrong_value_is_refused():
    with pytest.raises(UserError, match=r"--damp.grid must be from 1 to 64, not 0"):
        names(["an", "aevlp"], {"damp.grid": [4, 0]})
    with pytest.raises(UserError, match=r"--loss.lambda1 must be from 0 to --loss.lambda2 \(0.2\), not 0.4"):
        names(["aevlp"], {"loss.lambda2": [0.7, 0.2]})


def test_two_settings_never_share_a_folder():
    prompts = [
        "a {}",
        "a_{}",
        "A {}",
        "a/{}",
        "a {}-damp.top_k=1",
        "a\n{}",
        "x" * 300 + "{}",
        "x" * 301 + "{}",
        "é{}",
        "{}",
        "..{}",
    ]
    settings: list[dict[str, object]] = [{"teacher.prompt": prompt} for prompt in prompts]
    settings += [{"teacher.prompt": prompt, "damp.top_k": 1} for prompt in prompts]
    settings += [{"damp.temperature": value} for value in (0.1, 0.1000001, 0.10000001, 1e-5, 1.0000001e-5)]
    found = [row_label("aevlp", setting) for setting in settings]
    assert len({name.lower() for name in found}) == len(found)  # some file systems do not tell A from a
    for name in found:
        assert len(name.encode()) < 240
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=+-~")
    assert row_label("aevlp", {"damp.temperature": 0.05, "loss.b1": -8.0, "damp.draws": None, "damp.noise": False}) == (
        "aevlp-damp.temperature=0.05-loss.b1=-8-damp.draws=null-damp.noise=false"
    )


def test_the_table_has_mean_and_spread_and_says_what_failed():
    sweep = Sweep("default", ["an", "aevlp"], {"damp.top_k": [1, 2]})
    trials = sweep.trials(2)
    outcomes = {trial.name: result() for trial in trials}
    outcomes["aevlp-damp.top_k=1-0"] = result(mAP=60.0, mAP_present=60.0)
    outcomes["aevlp-damp.top_k=1-1"] = result(mAP=62.0, mAP_present=62.0)
    failure = Failure("no", is_user_error=True)
    table = shown(
        results_table(
            sweep,
            [
                (trial, failure if trial.name in ("aevlp-damp.top_k=2-0", "an-0", "an-1") else outcomes[trial.name])
                for trial in trials
            ],
            title="[bold]",
            caption="where",
        )
    )
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in table.splitlines() if line.startswith("│")]
    assert rows == [["an", "-", "failed"], ["aevlp", "1", "61.00 ± 1.41"], ["aevlp", "2", "50.00 (1 failed)"]]
    assert "[bold]" in table
    assert "lower bound" not in table
    assert "classes with a positive" not in table


def test_the_table_shows_both_maps_where_they_differ_and_a_lower_bound():
    sweep = Sweep("default", ["an"], {})
    (trial,) = sweep.trials(1)
    table = shown(results_table(sweep, [(trial, result(mAP_present=55.0, val_labels="incomplete"))], title="", caption="where"))
    assert "50.00 │                      55.00 │   40.00" in table
    assert "lower bound" in table
    assert "pseudo-labels" not in table  # no run has figures of them
    known = result(pseudo_labels=dict.fromkeys(("precision", "recall", "accumulated_precision", "accumulated_recall"), 0.5))
    assert "pseudo-labels" in shown(results_table(sweep, [(trial, known)], title="", caption="where"))


def test_the_csv_keeps_what_was_said_to_the_last_digit():
    sweep = Sweep("default", ["aevlp", "an"], {"damp.temperature": [0.10000001, 0.1], "teacher.prompt": ['a "{}", b', "{}"]})
    trials = sweep.trials(1)
    rows = list(csv.DictReader(io.StringIO(csv_text(sweep, [(trial, result()) for trial in trials], Path("out")))))
    assert [(row["damp.temperature"], row["teacher.prompt"]) for row in rows] == [
        ("0.10000001", 'a "{}", b'),
        ("0.10000001", "{}"),
        ("0.1", 'a "{}", b'),
        ("0.1", "{}"),
        ("", ""),
    ]


def test_jobs_share_cores_and_gpus():
    assert environment_of_job({}, 3, 2, 0) == {"OMP_NUM_THREADS": "2"}
    assert environment_of_job({"OMP_NUM_THREADS": "7"}, 0, 2, 1) == {"OMP_NUM_THREADS": "7"}
    assert [environment_of_job({}, slot, 1, 2)["CUDA_VISIBLE_DEVICES"] for slot in range(4)] == ["0", "1", "0", "1"]
    theirs = {"CUDA_VISIBLE_DEVICES": "4,6"}
    assert [environment_of_job(theirs, slot, 1, 2)["CUDA_VISIBLE_DEVICES"] for slot in range(3)] == ["4", "6", "4"]
