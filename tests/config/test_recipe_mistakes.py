"""A recipe with a mistake is refused in one line that says where it stands and what would be right."""

import os

import pytest

from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.core.errors import UserError
from tests.cli.run import refused

LAUGHS = "".join(
    f"a{level}: &a{level} {{{', '.join(f'k{k}: ' + (f'*a{level - 1}' if level else 'x') for k in range(9))}}}\n"
    for level in range(12)
)
"""Twelve lines of aliases that stand for 9 ** 12 values."""
MISTAKES = [
    ("damp:\n  grid: [3, 4]\n", ", line 2: damp.grid must be a whole number, not a list"),
    ("damp:\n  grid:\n    - 3\n", ", line 3: damp.grid must be a whole number, not a list"),
    ("train:\n  epochs: 3\n  epochs: 4\n", ", line 3: train.epochs stands on line 2 already; keep one of them"),
    ("train: {epochs: 3, epochs: 4}\n", ", line 1: train.epochs stands on line 1 already; keep one of them"),
    ("train:\n  epochs: 3\ndamp:\ntrain:\n  workers: 4\n", ", line 4: train stands on line 1 already; keep one of them"),
    ("train.epochs: 3\ntrain:\n  epochs: 4\n", ", line 3: train.epochs stands on line 1 already; keep one of them"),
    (
        "loss:\n  expected_positives: 2\ntrain:\n  expected_positives: 3\n",
        ", line 4: train.expected_positives stands on line 2 already; keep one of them",
    ),
    ("train:\n\tepochs: 3\n", ", line 2: cannot be read as YAML: a tab where only spaces may stand"),
    ("train:\n  epochs: 3\n   workers: 3\n", ", line 3: cannot be read as YAML: mapping values are not allowed here"),
    ("seed: 1\n---\nseed: 2\n", ", line 2: cannot be read as YAML: expected a single document"),
    ("train: *x\n", ", line 1: cannot be read as YAML: found undefined alias 'x'"),
    ("train: &x\n  epochs: *x\n", ", line 1: its aliases stand for too much, or for themselves; write it out"),
    (LAUGHS, ", line 6: its aliases stand for too much, or for themselves; write it out"),
    (f"train: {'[' * 3000}\n", ": cannot be read as YAML: lists or mappings within each other, too many"),
    (f"train:\n  epochs: {'9' * 400}\n", ", line 2: train.epochs must be a whole number, not '999"),
    ("", ": there is nothing in it; a recipe sets options"),
    ("# train:\n#   epochs: 3\n", ": there is nothing in it; a recipe sets options"),
    ("fast\n", ", line 1: a recipe must be a mapping of keys to values, not 'fast'"),
    ("- train\n- damp\n", ", line 1: a recipe must be a mapping of keys to values, not a list"),
    ("? [train, epochs]\n: 3\n", ", line 1: a key must be a word, not a list or a mapping"),
    ("train: 3\n", ", line 1: train must be a mapping of options to values, not '3'"),
    ("damp: none\n", ", line 1: damp must be a mapping of options to values, not 'none'"),
    ("methods: 3\n", ", line 1: methods must be a mapping of options to values, not '3'"),
    ("methods:\n  em: [1]\n", ", line 2: methods.em must be a mapping of options to values, not a list"),
    ("train:\n  epochs:\n    all: 3\n", ", line 3: unknown key train.epochs.all (did you mean 'train.epochs'?)"),
    ("traim:\n  epochs: 3\n", ", line 2: unknown key traim.epochs (did you mean 'train.epochs'?)"),
    ("train:\n  epochs: 3.0\n", ", line 2: train.epochs must be a whole number, not '3.0'"),
    ("train:\n  epochs:\n", ", line 2: train.epochs must be a whole number, not an empty value"),
    (f"train:\n  epochs: x{'9' * 5000}\n", f", line 2: train.epochs must be a whole number, not 'x{'9' * 59}...'"),
    ("damp:\n  noise: yes\n", ", line 2: damp.noise must be true or false, not 'yes'"),
    ("data:\n  observe: singel\n", ", line 2: data.observe must be given or single, not 'singel'"),
    ("seed: 1\nmethod:\n", ", line 2: method must be a text, not an empty value"),
    ("seed: 1\nmethod: aevpl\n", ", line 2: --method aevpl: no such method (did you mean 'aevlp'?)"),
    ('seed: 1\nstore: "\\ud800"\n', ", line 2: half of a character (a lone surrogate); write it anew"),
    ("train:\n  epochs: 3\n# caf\xe9\n".encode("latin-1"), ", line 3: not UTF-8 text; save it in that encoding"),
    ("seed: 3\n".encode("utf-16"), ", line 1: not UTF-8 text; save it in that encoding"),
]


@pytest.mark.parametrize(("content", "says"), MISTAKES, ids=[says[:50] for _, says in MISTAKES])
def test_a_mistake_is_named_with_its_line(tmp_path, content, says):
    recipe = tmp_path / "own.yaml"
    recipe.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError) as caught:
        read_recipe(recipe)
    assert str(caught.value).startswith(f"{recipe}{says}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["train:\n  epochs: '3'\n", "\ufefftrain:\n  epochs: 3\n", "train: {epochs: 3}\ndamp:\n"])
def test_what_can_only_mean_one_thing_is_read(tmp_path, content):
    (tmp_path / "own.yaml").write_text(content, encoding="utf-8")
    assert read_recipe(tmp_path / "own.yaml") == {"train.epochs": 3}


def test_a_run_is_read_even_if_its_method_is_no_more(tmp_path):
    (tmp_path / "config.yaml").write_text("recipe: voc\nmethod: gone\n")
    assert read_recipe(tmp_path / "config.yaml") == {"recipe": "voc", "method": "gone"}


def test_a_pipe_in_place_of_a_recipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "own.yaml")
    with pytest.raises(UserError, match=r"own\.yaml: cannot be read \(a pipe, a socket or a device, not a regular file\)"):
        read_recipe(tmp_path / "own.yaml")


def test_a_folder_is_no_recipe_but_a_run_has_one(tmp_path):
    with pytest.raises(UserError, match=r": this is a folder; give a recipe's name or file$"):
        recipe_file(str(tmp_path))
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    with pytest.raises(UserError, match=rf"; a run's settings are in its {tmp_path}/config\.yaml$"):
        recipe_file(str(tmp_path))


def test_nothing_is_begun_with_a_recipe_that_is_refused(capsys, world, tmp_path):
    (tmp_path / "own.yaml").write_text("train:\n  epochs: 1\n  epochs: 2\n")
    for command in (["train", world, "--out", tmp_path / "run"], ["compare", world, "--out", tmp_path / "run"]):
        assert "stands on line 2 already" in refused(capsys, *command, "--recipe", tmp_path / "own.yaml")
        assert "this is a folder" in refused(capsys, *command, "--recipe", tmp_path)
        assert refused(capsys, *command, "--recipe", "").startswith("--recipe : no such recipe or file; known are ")
    assert not (tmp_path / "run").exists()


OUT_OF_RANGE = [
    ("train:\n  epochs: 0\n", "aevlp", ", line 2: train.epochs must be at least 1, not 0"),
    ("loss:\n  lambda2: 0.2\n", "aevlp", ": loss.lambda1 must be from 0 to --loss.lambda2 (0.2), not 0.4"),
    ("damp:\n  grid: 3\n  local_threshold: -2\n", "aevlp", ", line 3: damp.local_threshold must be at least 0, not -2.0"),
    ("damp:\n  temperature: 1e-320\n", "aevlp", ", line 2: damp.temperature must be at least 1e-06, not 1e-320"),
    ("loss:\n  expected_positives: -1\n", "aevlp", ", line 2: train.expected_positives must be above 0, not -1.0"),
    (
        "train:\n  epochs: 2\nmethods:\n  an:\n    train:\n      epochs: 0\n",
        "an",
        ", line 6: methods.an.train.epochs must be at least 1",
    ),
    ("methods:\n  an:\n    train.epochs: 2\ntrain:\n  workers: 0\n", "an", ", line 5: train.workers must be at least 1, not 0"),
]


@pytest.mark.parametrize(("content", "method", "says"), OUT_OF_RANGE, ids=[says for *_, says in OUT_OF_RANGE])
def test_a_value_out_of_range_is_named_with_its_line(capsys, world, tmp_path, content, method, says):
    recipe = tmp_path / "own.yaml"
    recipe.write_text(content)
    words = [world, "--out", tmp_path / "run", "--recipe", recipe]
    assert refused(capsys, "train", *words, "--method", method).startswith(f"{recipe}{says}")
    assert refused(capsys, "compare", *words, "--methods", method, "--seeds", "1").startswith(f"{recipe}{says}")
    assert not (tmp_path / "run").exists()


def test_what_the_user_says_is_not_blamed_on_the_recipe(capsys, world, tmp_path):
    (tmp_path / "own.yaml").write_text("train:\n  epochs: 3\nloss:\n  lambda1: 0.4\n")
    words = [world, "--out", tmp_path / "run", "--recipe", tmp_path / "own.yaml"]
    for command in (["train", *words], ["compare", *words, "--seeds", "1"]):
        assert refused(capsys, *command, "--epochs", "0") == "--train.epochs must be at least 1, not 0"
        message = refused(capsys, *command, "--loss.lambda2", "0.2")  # lambda1 is the recipe's, and was right there
        assert message == "--loss.lambda1 must be from 0 to --loss.lambda2 (0.2), not 0.4"
    (tmp_path / "own.yaml").write_text("train:\n  epochs: 0\nloss:\n  lambda1: 0.4\n")  # wrong in what is said instead
    message = refused(capsys, "train", *words, "--epochs", "3", "--loss.lambda2", "0.2")
    assert message == "--loss.lambda1 must be from 0 to --loss.lambda2 (0.2), not 0.4"
