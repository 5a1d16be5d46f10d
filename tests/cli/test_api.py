"""`aevlp.train`, `aevlp.label` and `aevlp.load`: the same as the commands, and results that show themselves."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import aevlp
from aevlp.core.options import typed_value
from tests.cli.run import aevlp as command


def options(words: list[str]) -> dict[str, str]:
    """Options of a command as the argument `options`."""
    return {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}


@pytest.fixture(scope="module")
def trained(world, small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    own: dict[str, Any] = {**options(small), "report": True, "epochs": 2, "store": str(folder / "views")}
    return aevlp.train(world, folder / "run", seed=1, options=own)


def test_train_is_the_command(capsys, trained, world, small, tmp_path):
    words = [*small, "--epochs", "2", "--seed", "1", "--store", trained.folder.parent / "views", "--report", "true"]
    assert command(capsys, "train", world, "--out", tmp_path / "run", *words).code == 0
    weights = [run / "model" / "model.safetensors" for run in (trained.folder, tmp_path / "run")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert (trained.folder / "config.yaml").read_text().splitlines()[3:] == (
        (tmp_path / "run" / "config.yaml").read_text().splitlines()[3:]
    )


def test_the_result_is_that_of_the_file_with_attributes(trained):
    stored = json.loads((trained.folder / "result.json").read_text())
    assert dict(trained) == stored
    assert (trained.mAP, trained.val_mAP, trained.best_epoch) == (stored["mAP"], stored["val_mAP"], stored["best_epoch"])
    assert trained.per_class_AP == stored["per_class_AP"]
    assert trained.method == "consensus"
    assert trained.report == trained.folder / "report.html"
    assert trained.load(device="cpu").classes == stored["classes"]
    assert f"test mAP {stored['mAP']:.2f}" in repr(trained)
    assert str(trained.folder) in repr(trained)


def test_a_notebook_shows_figures_samples_and_the_report(trained):
    page = trained._repr_html_()
    assert f"{trained.mAP:.2f}" in page
    assert page.count('<img src="data:image/jpeg;base64,') >= 1
    assert trained.report.as_uri() in page


def test_label_is_the_command(capsys, trained, world, tmp_path):
    done = aevlp.label(world, tmp_path / "one.jsonl", run=trained.folder, min_confidence=0.5, device="cpu")
    words = ["--run", trained.folder, "--min-confidence", "0.5", "--device", "cpu"]
    assert command(capsys, "label", world, "--out", tmp_path / "two.jsonl", *words).code == 0
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    assert len(list(done)) == len(done) == len((tmp_path / "one.jsonl").read_text().splitlines())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"options": {"damp.gird": 5}}, "unknown option --damp.gird (did you mean '--damp.grid'?)"),
        ({"options": {"damp.grid": 0}}, "--damp.grid must be from 1 to 64, not 0"),
        ({"options": {"damp.grid": 2.5}}, "--damp.grid must be a whole number, from 1 to 64, not 2.5"),
        ({"options": {"report": "perhaps"}}, "--report must be true or false, not 'perhaps'"),
        ({"method": "an", "options": {"damp.grid": 5}}, "--damp.grid is not an option of --method an"),
        ({"observe": "some"}, "--data.observe must be given or single, not 'some'"),
        ({"recipe": "vox"}, "--recipe vox: no such recipe or file (did you mean 'voc'?)"),
        ({"resume": True, "overwrite": True}, "--resume and --overwrite exclude each other"),
    ],
)
def test_what_the_command_would_refuse_raises(world, tmp_path, wrong, message):
    with pytest.raises(aevlp.UserError) as caught:
        aevlp.train(world, tmp_path / "run", **wrong)
    assert message in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_run_continues_from_python(capsys, world, plain, tmp_path):
    own = options(plain)
    first = aevlp.train(world, tmp_path / "run", method="an", options=own)
    assert dict(aevlp.train(world, tmp_path / "run", resume=True)) == dict(first)


def test_progress_goes_to_the_log(world, plain, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="aevlp")
    aevlp.train(world, tmp_path / "run", method="an", options={**options(plain), "epochs": 1})
    assert any(line.startswith("epoch 1 of 1: loss") for line in caplog.messages)


def test_dir_shows_the_public_names_only():
    assert set(dir(aevlp)) == {"METHODS", "UserError", "__version__", "damp", "label", "load", "losses", "train"}
    assert all(getattr(aevlp, name) is not None for name in dir(aevlp))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        aevlp.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (3, float, 3.0),
        ("3", int, 3),
        (None, int | None, None),
        ("null", int | None, None),
        (True, bool, True),
        (Path("a"), str, "a"),
    ],
)
def test_values_from_python_become_those_of_options(value, kind, expected):
    found = typed_value(value, kind)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(("value", "kind"), [(True, int), (1, bool), (float("nan"), float), (None, int), ([1], str), (2.0, int)])
def test_values_of_another_type_are_refused(value, kind):
    with pytest.raises(ValueError, match=r".*"):
        typed_value(value, kind)
