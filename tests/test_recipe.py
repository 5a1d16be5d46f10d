import pytest
import yaml

from aevlp.losses import LOSSES
from aevlp.methods import METHODS, find_method
from aevlp.options import describe, options_of, read_value
from aevlp.recipe import SECTIONS, build_config, common_options, read_recipe, recipe_file, recipe_names


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_fits_the_options_and_opens_with_its_command(name):
    values = read_recipe(recipe_file(name))
    for method in METHODS:
        config = build_config(name, method, values)
        assert config.recipe == name
        for key, value in values.items():
            if key.startswith("loss.") and not hasattr(config.loss, key.removeprefix("loss.")):
                continue  # an option of another loss
            section, _, field = key.rpartition(".")
            if section:
                assert getattr(getattr(config, section), field) == value
    assert "aevlp " in recipe_file(name).read_text().splitlines()[0]


def test_default_holds_the_constants_of_the_method():
    config = build_config("default", "aevlp", read_recipe(recipe_file("default")))
    damp, train, loss = config.damp, config.train, vars(config.loss)
    assert (train.epochs, train.batch_size, train.learning_rate, train.head_learning_rate) == (8, 16, 1e-5, 1e-4)
    assert (train.patience, train.max_drop) == (2, 2.0)
    assert (damp.grid, damp.overlap, damp.temperature, damp.local_threshold) == (4, 0.2, 0.01, 0.0)
    assert (damp.global_threshold, damp.top_k, damp.negative_fraction, damp.neighbours) == (0.5, 3, 0.2, None)
    assert loss == {
        **{"w0": 0, "w1": 2, "b0": -2, "b1": -2, "mu0": 0.5, "mu1": 0.8, "sigma0": 2.0, "sigma1": 0.5},
        **{"q1": 1, "q2": 0.01, "q3": 0.9, "lambda1": 0.4, "lambda2": 0.7, "eta": 0.01, "expected_positives": None},
    }


def test_every_option_has_a_line_of_help():
    kinds = [*SECTIONS.items(), *(("loss", loss.options) for loss in LOSSES.values())]
    for section, kind in kinds:
        for option in options_of(section, kind):
            assert len(option.help) > 10, option.key
            assert describe(option.kind)
    assert {option.key for option in common_options()} >= {"seed", "device", "precision", "damp.grid", "train.epochs"}


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


@pytest.mark.parametrize(("text", "kind"), [("3.5", int), ("x", float), ("null", int), ("1", bool)])
def test_values_of_another_type_are_refused(text, kind):
    with pytest.raises(ValueError, match=text):
        read_value(text, kind)


def test_a_pair_of_loss_and_source_is_a_method():
    pair = find_method("gpr+damp")
    assert (pair.loss, pair.source) == (METHODS["aevlp"].loss, METHODS["aevlp"].source)


def test_a_configuration_round_trips_through_its_recipe_form(tmp_path):
    values = {"damp.grid": 3, "damp.draws": None, "seed": 7, "train.learning_rate": 3e-5, "teacher.prompt": "{}: what's that?"}
    config = build_config("mine", "aevlp", {**values, "loss.expected_positives": 2.5, "store": "none", "device": "cpu"})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config.as_recipe()))
    again = read_recipe(tmp_path / "config.yaml")
    assert build_config(again["recipe"], again["method"], again) == config
