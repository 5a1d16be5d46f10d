"""The JSON schema of recipes agrees with what reads them."""

import copy
import re

import jsonschema
import pytest
import yaml

from aevlp.config.recipe import FOLDER, read_recipe, recipe_names
from aevlp.config.schema import recipe_schema
from aevlp.core.errors import UserError


class Loader(yaml.SafeLoader):
    """Reads 1e-5 as a number, as editors do by YAML 1.2; PyYAML follows 1.1."""

    yaml_implicit_resolvers = copy.deepcopy(yaml.SafeLoader.yaml_implicit_resolvers)


Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789"))


@pytest.fixture(scope="module")
def validator():
    schema = recipe_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_that_comes_along_is_accepted(validator, name):
    content = yaml.load((FOLDER / f"{name}.yaml").read_text(), Loader)
    assert content
    assert [error.message for error in validator.iter_errors(content)] == []


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("train: {epochs: 3}", True),
        ("train: {epoch: 3}", False),
        ("trian: {epochs: 3}", False),
        ("train: {epochs: many}", False),
        ("train: {expected_positives: null}", True),
        ("damp: {negatives: agreed}", True),
        ("damp: {negatives: some}", False),
        ("report: false", True),
        ("seed: 1.5", False),
        ("methods: {gr: {loss: {w0: 1}}}", True),
        ("methods: {gr: {loss: {w9: 1}}}", False),
        ("published: {em: {train: {epochs: 2}}}", True),
        ("data: [1]", False),
    ],
)
def test_it_accepts_and_refuses_what_the_reader_does(validator, tmp_path, text, is_right):
    (tmp_path / "r.yaml").write_text(text)
    try:
        read_recipe(tmp_path / "r.yaml")
        was_read = True
    except UserError:
        was_read = False
    assert (was_read, validator.is_valid(yaml.load(text, Loader))) == (is_right, is_right)


@pytest.mark.parametrize("text", ["train: {epochs: 0}", "train: {learning_rate: 1000}", "thresholds: {precision: 0}"])
def test_it_knows_the_ranges(validator, text):
    assert not validator.is_valid(yaml.load(text, Loader))


def test_every_key_has_its_help():
    schema = recipe_schema()
    for section, content in schema["properties"].items():
        for key, value in content.get("properties", {}).items():
            assert re.search(r"\w.*\(.*default: ", value["description"]), (section, key)
