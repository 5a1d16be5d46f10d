"""Every wrong input gets one line that says what is wrong and what to do, and exit code 2."""

import errno
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

from aevlp.cli.main import COMMANDS
from aevlp.config.methods import find_method
from aevlp.config.run_options import options_for
from tests.cli.run import aevlp, refused
from tests.colours import write_world
from tests.data.test_images import png_header


@pytest.fixture
def own_world(tmp_path):
    return write_world(tmp_path / "world")


def test_no_command_and_help_list_the_commands(capsys):
    for words in ([], ["--help"]):
        answer = aevlp(capsys, *words)
        assert answer.code == 0
        assert all(name in answer.out for name in COMMANDS)


def test_version(capsys):
    assert aevlp(capsys, "--version").out.startswith("aevlp 0.")


@pytest.mark.parametrize("option", ["--recipe", "--prompts", "--out", "--teacher", "--backbone", "--store"])
def test_a_name_too_long_for_a_file_is_refused(capsys, world, small, tmp_path, option):
    words = ["train", world, "--out", tmp_path / "run", *small]
    assert "x" * 40 in refused(capsys, *words, option, "x" * 300)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", [["train"], ["train", "--dry-run"], ["compare", "--methods", "an,gr"]])
def test_features_that_are_not_there_are_refused_before_an_image_is_read(capsys, monkeypatch, world, tmp_path, words):
    monkeypatch.setattr("aevlp.data.load.examine", lambda *_: pytest.fail("images are read"))
    command, *options = words
    message = refused(capsys, command, world, "--features", tmp_path / "gone.npz", "--out", tmp_path / "run", *options)
    assert message.endswith(f"--features {tmp_path / 'gone.npz'}: no such file; check the path")


def test_a_path_that_may_not_be_looked_at_is_refused(capsys, monkeypatch, world, small, tmp_path):
    """As root, who runs tests now and then, everything may be looked at."""

    exists = Path.exists

    def locked(path, **options):
        if path.name == "p.yaml":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path, **options)

    monkeypatch.setattr("pathlib.Path.exists", locked)
    message = refused(capsys, "train", world, *small, "--out", tmp_path / "run", "--prompts", tmp_path / "p.yaml")
    assert message.endswith(": cannot be used (Permission denied); check the path and its permissions")


def test_unknown_command(capsys):
    assert "unknown command trian (did you mean 'train'?)" in refused(capsys, "trian")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epoch", "3"], "unknown option --epoch (did you mean '--epochs'?)"),
        (["--damp.tok_k", "3"], "unknown option --damp.tok_k (did you mean '--damp.top_k'?)"),
        (["--epochs", "three"], "must be a whole number, not 'three'"),
        (["--damp.noise", "maybe"], "must be true or false, not 'maybe'"),
        (["--damp.draws", "x"], "must be a whole number or null, not 'x'"),
        (["--observe", "double"], "must be given or single, not 'double'"),
        (["--epochs"], "expected one argument"),
        (["--epochs", "0"], "--train.epochs must be at least 1, not 0"),
        (["--damp.grid", "0"], "--damp.grid must be from 1 to 64, not 0"),
        (["--damp.temperature", "0"], "--damp.temperature must be at least 1e-06, not 0.0"),
        (["--damp.negative_fraction", "1.5"], "--damp.negative_fraction must be from 0 to 1, not 1.5"),
        (["--teacher.prompt", "a photo"], "--teacher.prompt must be a text with one {} for the class name"),
        (["--recipe", "defalt"], "--recipe defalt: no such recipe or file (did you mean 'default'?)"),
        (["--method", "aevpl"], "--method aevpl: no such method (did you mean 'aevlp'?); aevlp methods lists them"),
        (["--method", "an+damp"], "the loss an reads no pseudo-labels; use an alone, or bce+damp or gpr+damp or vlpl+damp"),
        (["--loss.q1", "0"], "--loss.q1 must be above 0, not 0.0"),
        (["--loss.sigma1", "0"], "--loss.sigma1 must be above 0"),
        (["--loss.lambda1", "0.9"], "--loss.lambda1 must be from 0 to --loss.lambda2 (0.7), not 0.9"),
        (["--train.expected_positives", "-1e0"], "--train.expected_positives must be above 0, not -1.0"),
        (["--resume", "--overwrite"], "--resume and --overwrite exclude each other"),
        (["--device", "cuda"], "--device cuda: this machine has none"),
        (["--precision", "fp16"], "--precision fp16: a CPU cannot compute in it"),
        (["--store", "/proc/nowhere"], "cannot be written"),
        (["extra"], "unexpected argument extra"),
        (["--train.batch_size", "0"], "--train.batch_size must be at least 1"),
        (["--train.batch_size", str(10**20)], f"--train.batch_size must be at most 1e+18, not {10**20}"),
        (["--train.learning_rate", "1e38"], "--train.learning_rate must be from 0 to 100, not 1e+38"),
        (["--damp.grid", str(10**6)], "--damp.grid must be from 1 to 64, not 1000000"),
        (["--damp.temperature", "1e38"], "--damp.temperature must be at most 1e+18, not 1e+38"),
        (["--model.image_size", str(10**6)], "--model.image_size must be from 8 to 8192, not 1000000"),
        (["--damp.tune", "maybe"], "--damp.tune: must be true or false, not 'maybe'"),
        (["--thresholds.aim", "F1"], "must be f1 or precision or count, not 'F1'"),
        (["--thresholds.precision", "0"], "--thresholds.precision must be above 0 and at most 1, not 0.0"),
        (["--thresholds.shrinkage", "-1"], "--thresholds.shrinkage must be at least 0, not -1.0"),
    ],
)
def test_wrong_options(capsys, monkeypatch, world, tmp_path, small, words, message):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert message in refused(capsys, "train", world, "--out", tmp_path / "run", *small, *words)
    assert not (tmp_path / "run").exists()


def test_missing_arguments(capsys, world):
    assert "required: --out" in refused(capsys, "train", world)
    assert "required: DATA" in refused(capsys, "train", "--out", "x")


@pytest.mark.parametrize("command", [["check"], ["score"], ["train", "--out", "run"], ["compare", "--out", "sweep"]])
def test_missing_and_empty_image_sets(capsys, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    assert "nowhere" in refused(capsys, command[0], tmp_path / "nowhere", *command[1:])
    (tmp_path / "empty").mkdir()
    assert "empty" in refused(capsys, command[0], tmp_path / "empty", *command[1:])
    assert not (tmp_path / "run").exists()


def test_an_existing_run_is_kept_unless_the_user_says_otherwise(capsys, world, small, tmp_path):
    run = tmp_path / "run"
    assert aevlp(capsys, "train", world, "--out", run, *small, "--epochs", "1").code == 0
    before = (run / "result.json").read_bytes()
    message = refused(capsys, "train", world, "--out", run, *small)
    assert "this run exists; continue it with --resume or replace it with --overwrite" in message
    assert (run / "result.json").read_bytes() == before
    # Even then nothing is removed before the new run is sure to start.
    assert "nowhere" in refused(capsys, "train", tmp_path / "nowhere", "--out", run, "--overwrite")
    assert (run / "result.json").read_bytes() == before
    assert aevlp(capsys, "train", world, "--out", run, *small, "--epochs", "2", "--overwrite").code == 0
    assert json.loads((run / "result.json").read_text())["epochs"] == 2


def test_a_folder_that_is_not_a_run_is_never_overwritten(capsys, world, small, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "draft.txt").write_text("years of work")
    message = refused(capsys, "train", world, "--out", tmp_path / "thesis", *small, "--overwrite")
    assert "exists and is not a run folder" in message
    assert (tmp_path / "thesis" / "draft.txt").read_text() == "years of work"


def test_full_needs_complete_labels(capsys, world, plain, tmp_path):
    message = refused(capsys, "train", world, "--out", tmp_path / "run", *plain, "--observe", "given", "--method", "full")
    assert "--zeros negative" in message
    assert "--observe single" in message
    assert not (tmp_path / "run").exists()


def test_recipes_with_mistakes_name_the_line(capsys, world, tmp_path):
    recipe = tmp_path / "own.yaml"
    for text, message in (
        ("method: aevlp\ndamp:\n  grib: 3\n", "own.yaml, line 3: unknown key damp.grib (did you mean 'damp.grid'?)"),
        ("train:\n  epochs: many\n", "own.yaml, line 2: train.epochs must be a whole number, not 'many'"),
        ("train: [1, 2]\n", "own.yaml, line 1: train must be a mapping"),
        ("train:\n  - epochs\n", "own.yaml, line 2: train must be a mapping"),
        ("damp:\n  # grid: 3\nmethod: aevpl\n", "did you mean 'aevlp'?"),
        ("a: b: c\n", "cannot be read as YAML"),
        (
            "methods:\n  em-app:\n    loss:\n      alpha: 1\n",
            "own.yaml, line 4: --method em-app: no such method (did you mean 'em-apl'?)",
        ),
        ("methods:\n  em:\n    loss:\n      beta: 1\n", "own.yaml, line 4: unknown key methods.em.loss.beta"),
        ("published:\n  em:\n    train:\n      epochs: x\n", "line 4: published.em.train.epochs must be a whole number, not 'x'"),
        ("methods:\n  em: 3\n", "own.yaml, line 2: methods.em must be a mapping of options to values, not '3'"),
        ("methods:\n  em:\n    protocol: published\n", "own.yaml, line 3: unknown key methods.em.protocol"),
        ("methods:\n  em:\nepochs: 3\n", "own.yaml, line 3: unknown key epochs"),
    ):
        recipe.write_text(text)
        assert message in refused(capsys, "train", world, "--out", tmp_path / "run", "--recipe", recipe)


def test_what_the_user_says_wins_over_the_recipe(capsys, world, plain, tmp_path):
    recipe = tmp_path / "own.yaml"
    recipe.write_text("method: gr\nloss:\n  q3: 0.5\n  w1: 7\ntrain:\n  epochs: 2\n")  # q3 is another loss's: no matter
    words = [*plain, "--recipe", str(recipe)]
    assert "default: 7" in aevlp(capsys, "train", "--recipe", recipe, "--help-all").out
    assert aevlp(capsys, "train", world, "--out", tmp_path / "run", *words, "--epochs", "1").code == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["method"], result["epochs"], result["recipe"]) == ("gr", 1, str(recipe))


CONFIGURED = ("train", "score", "tune", "label", "compare")  # commands with all options of a run


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("store", "report")])
def test_help_shows_every_option_with_its_default(capsys, command):
    answer = aevlp(capsys, command, "--help-all" if command in CONFIGURED else "--help")
    assert answer.code == 0
    options = [text for text in answer.out.replace("\n  --", "\n\n--").split("\n\n") if text.startswith("--")]
    assert options
    for text in options:
        assert "default:" in " ".join(text.split()) or text.startswith(("--out RUN", "--out DIR", "--out FILE")), text


def test_eval_refuses_what_does_not_fit(capsys, world, plain, tmp_path):
    run = tmp_path / "run"
    aevlp(capsys, "train", world, "--out", run, *plain, "--epochs", "1", "--method", "an")
    assert "not a run folder" in refused(capsys, "eval", tmp_path, world)
    other = write_world(tmp_path / "other")
    for name in ("labels.csv", "classes.txt"):
        (other / name).write_text((other / name).read_text().replace("black", "noir"))
    message = refused(capsys, "eval", run, other)
    assert "different classes" in message
    assert "noir" in message
    assert "black" in message
    untested = write_world(tmp_path / "untested", test=0)
    assert "--split test" in refused(capsys, "eval", run, untested)
    tests_only = write_world(tmp_path / "tests only", train=0, test=12)
    assert "no training images" in refused(capsys, "eval", run, tests_only, "--split", "val")
    assert aevlp(capsys, "eval", run, tests_only).code == 0
    (tmp_path / "found.csv").write_text("mine")
    assert "exists" in refused(capsys, "eval", run, world, "--probabilities", tmp_path / "found.csv")
    assert (tmp_path / "found.csv").read_text() == "mine"
    shutil.rmtree(run / "model")
    assert "no trained model" in refused(capsys, "eval", run, world)


def test_a_teacher_or_backbone_that_is_not_there(capsys, world, small, tmp_path):
    message = refused(capsys, "train", world, "--out", tmp_path / "a", *small, "--teacher", "openai/clip-vit-base-patch16")
    assert "--teacher demo is for the demo's drawings, not photos" in message
    assert "--method gr" in message
    assert "HF_HOME" in message
    message = refused(capsys, "train", world, "--out", tmp_path / "b", *small, "--backbone", "microsoft/resnet-50")
    assert "--backbone demo is for the demo's drawings, not photos" in message
    message = refused(capsys, "train", world, "--out", tmp_path / "c", *small, "--teacher", "no.such.module:teacher")
    assert "no.such.module" in message
    assert not any((tmp_path / name).exists() for name in "abc")


def test_check_lists_what_is_wrong_and_fails(capsys, own_world):
    assert aevlp(capsys, "check", own_world).code == 0
    whole = own_world / "images" / "000.png"
    Image.open(whole).convert("RGB").resize((200, 200)).save(own_world / "images" / "001.png", format="JPEG")
    data = (own_world / "images" / "001.png").read_bytes()
    (own_world / "images" / "001.png").write_bytes(data[: len(data) // 2])
    (own_world / "images" / "002.png").write_bytes(b"")
    (own_world / "images" / "003.png").write_bytes(png_header(30_000, 30_000))
    (own_world / "images" / "004.png").write_text("hello")
    answer = aevlp(capsys, "check", own_world)
    assert answer.code == 2
    assert "images/001.png" in answer.out
    assert "truncated" in answer.out
    assert "images/002.png" in answer.out
    assert "empty" in answer.out
    assert "images/003.png: too many pixels" in answer.out
    assert "images/004.png: not an image" in answer.out
    assert "4 of 56 images cannot be read" in answer.err


def test_check_understands_its_options(capsys, own_world):
    given, single = (aevlp(capsys, "check", own_world, *words).out for words in ([], ["--observe", "single"]))
    assert "1.000 (1 to 1)" in single
    assert "1.000 (1 to 1)" not in given


@pytest.mark.parametrize("name", COMMANDS)
def test_the_overview_says_of_a_command_what_its_help_says(capsys, name):
    shown = " ".join(aevlp(capsys, name, "--help").out.split())
    assert shown.startswith(COMMANDS[name])
    assert f"example: aevlp {name}" in shown


def test_help_shows_the_range_of_every_option_that_has_one(capsys):
    shown = " ".join(aevlp(capsys, "train", "--method", "aevlp", "--help-all").out.split())
    for option in options_for(find_method("aevlp")):
        if option.range is not None:
            assert f", {option.range}" in shown.partition(f"--{option.key} ")[2][:600], option.key


def test_help_names_the_common_options_and_where_the_others_are(capsys):
    shown, everything = (aevlp(capsys, "train", word).out for word in ("--help", "--help-all"))
    assert "--teacher " in shown
    assert "--damp.grid" not in shown
    assert "--damp.grid" in everything
    assert "more options: aevlp train --help-all" in shown
    groups = [line.removesuffix(":") for line in everything.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert groups == ["positional arguments", "options", "data", "teacher", "pseudo-labels", "loss", "training", "output"]
