"""A recipe opens with its command and with what it needs."""

import re

import pytest

from aevlp.cli.main import COMMANDS
from aevlp.config.config import build_config
from aevlp.config.defaults import settings
from aevlp.config.recipe import read_recipe, recipe_file, recipe_names
from aevlp.data.benchmarks import BENCHMARKS
from tests.config.recipe_needs import clip, kept, needs, operations, resnet50

SIZES = {benchmark.name: (benchmark.train.images, benchmark.test.images) for benchmark in BENCHMARKS}


def head_of(name: str) -> str:
    """The comment that a recipe opens with, without its marks and line breaks."""
    lines = recipe_file(name).read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    assert all(line.startswith("#") for line in lines)
    return " ".join(" ".join(line[1:].split()) for line in lines)


@pytest.mark.parametrize("name", [*SIZES, "default"])
def test_a_recipe_says_what_it_needs(name):
    """A change of its settings makes these figures stale."""
    config = build_config(name, "aevlp", settings(read_recipe(recipe_file(name)), "aevlp", "common"))
    head = head_of(name)
    for line in needs(config, *SIZES.get(name, (1250, 0))).lines:
        assert line in head
    assert "not measured" in head
    assert name in SIZES or "1,000 training images and 250 held out" in head


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_opens_with_the_command_that_runs_it(name):
    words = re.split(r":\s+aevlp ", recipe_file(name).read_text(encoding="utf-8").splitlines()[0])[1].split()
    assert words[0] in COMMANDS
    if name in SIZES:
        assert words == ["train", "DATA", "--out", "RUN", "--recipe", name, "--observe", "single"]


def test_the_computing_agrees_with_the_published_sizes_of_the_networks():
    assert operations(resnet50(), 224) / 2 == pytest.approx(4.09e9, rel=0.01)  # multiplications with their additions
    assert operations(clip().get_image_features, 224) / 2 == pytest.approx(17.58e9, rel=0.01)
    assert (resnet50().num_parameters(), clip().num_parameters()) == (23_512_130, 149_620_737)  # the former with 2 classes
    assert kept(2, 224) == pytest.approx(2 * kept(1, 224), rel=0.01)
