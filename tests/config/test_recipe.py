import json
import re
from typing import Any

import pytest
import yaml

from aevlp.config.config import build_config
from aevlp.config.defaults import settings
from aevlp.config.methods import METHODS, find_method
from aevlp.config.recipe import read_recipe, recipe_file, recipe_names, recipe_text
from aevlp.config.run_options import all_options, options_for
from aevlp.core.errors import UserError
from aevlp.core.options import Parser, describe, options_of, read_value
from aevlp.damp.options import DampOptions
from tests.cli.run import aevlp


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_fits_the_options_and_opens_with_its_command(name):
    values = read_recipe(recipe_file(name))
    for method in METHODS:
        said = settings(values, method, "common")
        config = build_config(name, method, said)
        assert config.recipe == name
        built = flat(config.as_recipe())
        for option in options_for(METHODS[method]):
            if option.key in said:
                assert built[option.key] == said[option.key]
    assert "aevlp " in recipe_file(name).read_text().splitlines()[0]


def flat(nested, prefix=""):
    found: dict[str, Any] = {}
    for key, value in nested.items():
        found.update(flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return found


def test_the_common_protocol_trains_all_methods_alike():
    values = read_recipe(recipe_file("coco"))
    usual = build_config("coco", "aevlp", settings(values, "aevlp", "common"))
    for method in METHODS:
        assert build_config("coco", method, settings(values, method, "common")).train == usual.train
    assert build_config("coco", "aevlp", settings(values, "aevlp", "published")) == usual


def test_two_names_of_one_method_have_the_same_settings():
    values = read_recipe(recipe_file("cub"))
    for method in METHODS.values():
        if method.parts != method.name:
            for protocol in ("common", "published"):
                assert settings(values, method.parts, protocol) == settings(values, method.name, protocol)


def test_a_run_serves_as_a_recipe_for_what_it_was_only(tmp_path):
    """Else the settings of one method would go by the name of another, or of another protocol."""
    config = build_config("voc", "em", {**settings(read_recipe(recipe_file("voc")), "em", "published"), "protocol": "published"})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config.as_recipe()))
    values = read_recipe(tmp_path / "config.yaml")
    assert build_config("voc", "em", settings(values, "em", "published")) == config
    for method, protocol in (("ll-r", "published"), ("em", "common")):
        with pytest.raises(UserError, match=r"the recipe is a run of em with the published protocol; use the one .* voc"):
            settings(values, method, protocol)


def test_a_recipe_that_names_another_need_not_name_a_method(tmp_path):
    (tmp_path / "own.yaml").write_text("recipe: voc\ntrain:\n  epochs: 3\n")
    found = settings(read_recipe(tmp_path / "own.yaml"), "em", "common")
    assert (found["recipe"], found["train.epochs"]) == ("voc", 3)


def test_a_recipe_must_have_published_settings_to_follow_them(tmp_path):
    (tmp_path / "own.yaml").write_text("protocol: published\n")
    with pytest.raises(UserError, match="the recipe has no published settings; those that have: coco, cub, nus, voc"):
        settings(read_recipe(tmp_path / "own.yaml"), "em", "published")


def test_every_option_has_a_line_of_help():
    for option in all_options().values():
        assert len(option.help) > 10, option.key
        assert describe(option.kind)
    assert set(all_options()) >= {"seed", "device", "precision", "damp.grid", "train.epochs", "loss.alpha", "latent.size"}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", int, 3),
        ("1e-5", float, 1e-5),
        ("null", int | None, None),
        ("7", int | None, 7),
        ("true", bool, True),
        ("null", str, "null"),
    ],
)
def test_values_are_read_by_their_type(text, kind, value):
    assert read_value(text, kind) == value


def test_a_boolean_option_alone_means_true():
    parser = Parser("train", "")
    for option in options_of("damp", DampOptions):
        parser.add_option(option)
    said = vars(parser.read(["--damp.tune", "--damp.top_k", "2", "--damp.noise", "false", "--damp.augment", "true"]))
    assert said == {"damp.tune": True, "damp.top_k": 2, "damp.noise": False, "damp.augment": True}
    assert vars(parser.read(["--damp.tune"])) == {"damp.tune": True}
    with pytest.raises(UserError, match=r"--damp\.tune: must be true or false, not 'maybe'"):
        parser.read(["--damp.tune", "maybe"])


@pytest.mark.parametrize("name", [*METHODS, "boostlu+an", "gpr+none"])
def test_every_method_has_what_thresholds_are_fitted_by(name):
    keys = {option.key for option in options_for(find_method(name))}
    assert keys >= {"train.expected_positives", "thresholds.aim", "thresholds.precision", "thresholds.shrinkage", "report"}
    config = build_config("test", name, {"train.expected_positives": 2.5, "thresholds.aim": "count"})
    assert (config.train.expected_positives, config.thresholds.aim) == (2.5, "count")


@pytest.mark.parametrize(("text", "kind"), [("3.5", int), ("x", float), ("inf", float), ("nan", float), ("1", bool)])
def test_values_of_another_type_are_refused(text, kind):
    with pytest.raises(ValueError, match=text):
        read_value(text, kind)


def test_a_pair_of_loss_and_source_is_a_method():
    pair = find_method("gpr+damp")
    assert (pair.loss, pair.source) == (METHODS["aevlp"].loss, METHODS["aevlp"].source)


def test_a_recipe_of_the_last_version_is_read(tmp_path):
    (tmp_path / "old.yaml").write_text("loss:\n  expected_positives: 2.5\n")
    assert read_recipe(tmp_path / "old.yaml") == {"train.expected_positives": 2.5}


def test_what_is_set_for_one_method_holds_for_it_alone_and_for_it_with_another_head(tmp_path):
    own = {"em": {"loss": {"alpha": 0.4}}, "boostlu+em": {"boostlu": {"factor": 2}}}
    content = {"loss": {"alpha": 0.3}, "methods": own, "published": {"em": {"loss": {"alpha": 0.5}}}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(content))
    values = read_recipe(tmp_path / "own.yaml")

    def alpha(method, protocol="common"):
        return vars(build_config("own", method, settings(values, method, protocol)).loss)["alpha"]

    assert (alpha("vlpl"), alpha("em"), alpha("boostlu+em"), alpha("em", "published")) == (0.3, 0.4, 0.4, 0.5)
    assert vars(build_config("own", "boostlu+em", settings(values, "boostlu+em", "common")).head) == {"factor": 2}


def test_a_configuration_round_trips_through_its_recipe_form(tmp_path):
    values = {"damp.grid": 3, "damp.draws": None, "seed": 7, "train.learning_rate": 3e-5, "teacher.prompt": "{}: what's that?"}
    config = build_config("mine", "aevlp", {**values, "train.expected_positives": 2.5, "store": "none", "device": "cpu"})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config.as_recipe()))
    again = read_recipe(tmp_path / "config.yaml")
    assert build_config(again["recipe"], again["method"], again) == config


def test_the_text_of_a_recipe_is_read_back_and_opens_with_its_remarks(tmp_path):
    config = build_config(
        "mine", "aevlp", {"damp.tune": True, "damp.temperature": 0.003, "teacher.prompt": "ein Foto: {} \u00e9"}
    )
    (tmp_path / "own.yaml").write_text(recipe_text(config.as_recipe(), "one: two", "three"), encoding="utf-8")
    assert (tmp_path / "own.yaml").read_text(encoding="utf-8").startswith("# one: two\n# three\n\n")
    again = read_recipe(tmp_path / "own.yaml")
    assert build_config(again["recipe"], again["method"], again) == config


def test_default_needs_no_expected_number_of_positives(capsys, world, small, tmp_path):
    answer = aevlp(capsys, "train", world, "--out", tmp_path / "run", *small, "--epochs", "1", "--recipe", "default")
    assert answer.code == 0, answer.err
    said = re.search(r"expected positives per image: ([\d.]+), estimated from the fully labelled validation images", answer.err)
    assert said is not None
    found = json.loads((tmp_path / "run" / "result.json").read_text())["expected_positives"]
    assert float(said[1]) == pytest.approx(found, abs=1e-3)
