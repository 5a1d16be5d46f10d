"""Every method through the commands a user types: what there is, what belongs to which, and that it trains."""

import json

import pytest
import torch

from aevlp.config.catalogue import page
from aevlp.config.methods import METHODS
from aevlp.config.recipe import read_recipe, recipe_file
from tests.cli.run import aevlp, refused, result_of
from tests.colours import write_world
from tests.conftest import REPOSITORY

COMBINED = [
    "gpr+none",
    "bce+random",
    "gpr+random",
    "gpr+vlpl",
    "gpr+ll-ct",
    "gpr+ll-cp",
    "bce+damp",
    "vlpl+damp",
    "gpr+confident",
]
BOOSTED = ["boostlu+aevlp", "boostlu+gpr+random", "latent+an"]
TEACHER = ["--teacher", "tests.colours:teacher"]


@pytest.mark.parametrize("method", [*METHODS, *COMBINED, *BOOSTED])
def test_every_method_trains_and_its_model_is_found_again(capsys, world, plain, tmp_path, method):
    asks = any(word in method for word in ("aevlp", "consensus", "vlpl", "damp", "zero-shot"))
    words = [*plain, "--method", method, "--epochs", "2", *(TEACHER if asks else [])]
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *words)
    assert answer.code == 0, answer.err
    result = result_of(tmp_path / "run")
    assert result["method"] == method
    assert result["teacher"] == ("tests.colours:teacher" if asks else None)
    answer = aevlp(capsys, "eval", tmp_path / "run", world)
    assert answer.code == 0, answer.err
    assert f"mAP {result['mAP']:.2f}" in answer.out


@pytest.mark.parametrize("method", [*METHODS, *BOOSTED])
def test_every_method_learns_from_any_mix_of_labels(capsys, plain, tmp_path, method):
    """Rows without a label, with several, and with confirmed negatives."""
    world = write_world(tmp_path / "world")
    rows = [line.split(",") for line in (world / "labels.csv").read_text().splitlines()]
    lines = ["image,labels,negatives,split"]
    for number, (image, labels, split) in enumerate(rows[1:]):
        negatives = "" if split == "test" or "red" in labels or number % 2 else "red"
        lines.append(f"{image},{'' if split == 'train' and number % 5 == 0 else labels},{negatives},{split}")
    (world / "labels.csv").write_text("\n".join(lines) + "\n")
    asks = METHODS[method].source.asks_teacher if method in METHODS else "aevlp" in method
    options = [*plain, "--observe", "given", "--method", method, "--epochs", "2", *(TEACHER if asks else [])]
    options += ["--zeros", "negative"] if method == "full" else []
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *options)
    assert answer.code == 0, answer.err
    losses = [json.loads(line)["loss"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert torch.tensor(losses).isfinite().all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "gr", "--loss.q3", "0.9"], "--loss.q3 is not an option of --method gr; its own options: --loss.w0,"),
        (["--method", "an", "--damp.grid=3"], "--damp.grid is not an option of --method an; its own options: none"),
        (["--method", "em", *TEACHER], "--teacher is not an option of --method em; its own options: --loss.alpha"),
        (["--method", "ll-ct", "--loss.delta", "0.1"], "not an option of --method ll-ct; its own options: --ll-ct.delta"),
        (["--method", "boostlu+an", "--latent.size", "9"], "its own options: --boostlu.factor"),
        (["--method", "role+damp"], "the source damp yields pseudo ones; role goes with estimates"),
        (
            ["--method", "boostlu+an+damp"],
            "--method boostlu+an+damp: the loss an reads no pseudo-labels; use an alone, or",
        ),
        (["--method", "boostlu+mime"], "--method boostlu+mime: mime has a head already, latent"),
        (["--method", "boostlu+em-app"], "--method boostlu+em-app: no such method as 'em-app' (did you mean 'em-apl'?)"),
        (["--method", "boostlu+"], "--method boostlu+: no such method as ''"),
        (["--method", "ll-r+boostlu"], "a head goes before the rest, as in boostlu+ll-r"),
        (["--method", "bce"], "--method bce: the loss bce needs a source: bce+confident, bce+damp"),
        (["--method", ""], "--method : no such method"),
        (["--method", "em", "--compat", "paper"], "--compat is not an option of --method em"),
        (["--method", "gpr+rando"], "--method gpr+rando: no such method (did you mean 'gpr+random'?)"),
        (["--method", "em", "--loss.alpha", "-1"], "--loss.alpha must be"),
        (["--method", "em", "--protocol", "published"], "no published settings; those that have: coco, cub, nus, voc"),
        (["--method", "em", "--protocol", "official"], "must be common or published, not 'official'"),
        (["--train.optimizer", "sgd", "--method", "an"], "must be adam or adamax, not 'sgd'"),
    ],
)
def test_what_does_not_belong_to_a_method_is_refused(capsys, world, plain, tmp_path, words, message):
    assert message in refused(capsys, "train", world, "--out", tmp_path / "run", *plain, *words)
    assert not (tmp_path / "run").exists()


def test_how_many_positives_there_are_can_be_said_to_every_method(capsys, world, plain, tmp_path):
    """Thresholds without complete validation labels count on it, whatever was trained."""
    words = ["train", world, "--out", tmp_path / "run", *plain, "--observe", "given", "--method", "an", "--epochs", "1"]
    assert aevlp(capsys, *words, "--train.expected_positives", "2.5").code == 0
    assert json.loads((tmp_path / "run" / "thresholds.json").read_text())["positives"] == pytest.approx(2.5)


def test_score_is_for_methods_with_a_teacher(capsys, world, plain):
    assert "--method role: asks no teacher" in refused(capsys, "score", world, *plain, "--method", "role")
    assert aevlp(capsys, "score", world, *plain, "--method", "vlpl", *TEACHER).code == 0


def test_a_run_may_follow_the_published_protocol_and_goes_on_with_it(capsys, world, plain, backbone, tmp_path):
    words = ["train", world, "--recipe", "voc", "--observe", "single", "--backbone", backbone, "--device", "cpu"]
    words += ["--model.image_size", "32", "--train.workers", "1", "--method", "mime", "--protocol", "published", "--epochs", "2"]
    assert aevlp(capsys, *words, "--out", tmp_path / "run").code == 0
    config = (tmp_path / "run" / "config.yaml").read_text()
    assert "optimizer: adamax" in config
    assert "batch_size: 32" in config
    assert result_of(tmp_path / "run")["protocol"] == "published"
    assert "finished" in aevlp(capsys, "train", world, "--out", tmp_path / "run", "--resume").err
    refusal = refused(capsys, "train", world, "--out", tmp_path / "run", "--resume", "--protocol", "common")
    assert "protocol was published and is now common" in refusal
    again = ["train", world, "--recipe", tmp_path / "run" / "config.yaml", "--out", tmp_path / "again"]
    assert aevlp(capsys, *again).code == 0
    assert result_of(tmp_path / "again")["mAP"] == result_of(tmp_path / "run")["mAP"]


def test_methods_are_listed_with_their_options_and_papers(capsys):
    listed = " ".join(aevlp(capsys, "methods").out.split())
    for name, method in METHODS.items():
        assert f"│ {name}" in listed
        assert method.summary
        assert method.paper or name in ("full", "consensus")
    one = aevlp(capsys, "methods", "boostlu+em", "--recipe", "coco").out
    assert "loss.alpha 0.1" in " ".join(one.split())
    assert "boostlu.factor" in one
    assert "│ aevlp" not in one
    published = aevlp(capsys, "methods", "vlpl", "mime", "--recipe", "voc", "--protocol", "published").out
    words = " ".join(published.replace("│", " ").split())
    assert "patch14-336" in words.replace(" ", "")
    assert "train.optimizer adamax" in words
    assert "train.image_size" not in words


def test_the_page_of_methods_is_what_the_registry_says(capsys):
    """If this fails: aevlp methods --markdown > docs/methods.md"""
    assert (REPOSITORY / "docs" / "methods.md").read_text() == aevlp(capsys, "methods", "--markdown").out
    assert page("default", read_recipe(recipe_file("default"))) == aevlp(capsys, "methods", "--markdown").out


def test_the_penalty_of_a_head_is_part_of_the_loss(capsys, world, plain, tmp_path):
    losses = []
    for weight in ("0", "1e-2"):
        run = tmp_path / weight
        words = [*plain, "--method", "mime", "--epochs", "1", "--latent.weight", weight]
        assert aevlp(capsys, "train", world, "--out", run, *words).code == 0
        losses.append(json.loads((run / "metrics.jsonl").read_text())["loss"])
        losses.append((run / "model" / "model.safetensors").read_bytes())
    assert losses[2] > losses[0] + 0.1
    assert losses[3] != losses[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["anx"], "--method anx: no such method"),
        (["--recipe", "defalt"], "--recipe defalt: no such recipe"),
        (["em", "--protocol", "published"], "the recipe has no published settings"),
        (["em", "--markdown"], "--markdown: the page has all methods"),
    ],
)
def test_wrong_words_to_methods(capsys, words, message):
    assert message in refused(capsys, "methods", *words)
