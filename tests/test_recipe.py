from typing import Any

import pytest
import yaml

from aevlp.methods import METHODS, find_method
from aevlp.options import describe, read_value
from aevlp.recipe import all_options, build_config, options_for, read_recipe, recipe_file, recipe_names, settings
from aevlp.sources.damp import DampOptions


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


def test_default_holds_the_constants_of_the_method():
    config = build_config("default", "aevlp", settings(read_recipe(recipe_file("default")), "aevlp", "common"))
    damp, train, loss = config.source, config.train, vars(config.loss)
    assert isinstance(damp, DampOptions)
    assert (train.epochs, train.batch_size, train.learning_rate, train.head_learning_rate) == (8, 16, 1e-5, 1e-4)
    assert (train.patience, train.max_drop, train.expected_positives) == (2, 2.0, None)
    assert (damp.grid, damp.overlap, damp.temperature, damp.local_threshold) == (4, 0.2, 0.01, 0.0)
    assert (damp.global_threshold, damp.top_k, damp.negative_fraction, damp.neighbours) == (0.5, 3, 0.2, None)
    assert loss == {
        **{"w0": 0, "w1": 2, "b0": -2, "b1": -2, "mu0": 0.5, "mu1": 0.8, "sigma0": 2.0, "sigma1": 0.5},
        **{"q1": 1, "q2": 0.01, "q3": 0.9, "lambda1": 0.4, "lambda2": 0.7, "eta": 0.01},
    }


BENCHMARKS: dict[str, dict[str, dict[str, Any]]] = {
    "voc": {
        "em": {"alpha": 0.2},
        "vlpl": {"alpha": 0.2},
        "em-apl": {"alpha": 0.2, "beta": 0.02, "warmup": 5},
        "mime": {"warmup": 2},
    },
    "coco": {
        "em": {"alpha": 0.1},
        "vlpl": {"alpha": 0.1},
        "em-apl": {"alpha": 0.1, "beta": 0.9, "warmup": 5},
        "mime": {"warmup": 2},
    },
    "nus": {
        "em": {"alpha": 0.1},
        "vlpl": {"alpha": 0.1},
        "em-apl": {"alpha": 0.1, "beta": 0.2, "warmup": 4},
        "mime": {"warmup": 2},
    },
    "cub": {
        "em": {"alpha": 0.01},
        "vlpl": {"alpha": 0.01},
        "em-apl": {"alpha": 0.01, "beta": 0.4, "warmup": 3},
        "mime": {"warmup": 5},
    },
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_methods_have_defaults_of_their_own_in_each_recipe(name):
    values = read_recipe(recipe_file(name))
    for method, wanted in BENCHMARKS[name].items():
        config = build_config(name, method, settings(values, method, "common"))
        assert {**vars(config.loss), **vars(config.source)}.items() >= wanted.items()
        assert (config.train.epochs, config.train.optimizer) == ({"voc": 8, "coco": 8}.get(name, 10), "adam")


@pytest.mark.parametrize(
    ("name", "method", "rates", "batch", "patience"),
    [
        ("voc", "em", (1e-5, 1e-5), 8, 1),
        ("cub", "em-apl", (1e-4, 1e-4), 8, 1),
        ("coco", "em", (1e-5, 1e-5), 16, 1),
        ("nus", "vlpl", (1e-5, 1e-5), 8, None),
        ("cub", "ll-ct", (1e-5, 1e-4), 16, 2),
        ("voc", "boostlu+ll-r", (1e-5, 1e-4), 16, 2),
        ("nus", "mime", (1e-4, 1e-3), 16, 2),
        ("voc", "mime", (1e-4, 1e-3), 32, 2),
    ],
)
def test_published_settings_are_those_of_the_authors(name, method, rates, batch, patience):
    values = read_recipe(recipe_file(name))
    config = build_config(name, method, settings(values, method, "published"))
    train = config.train
    assert (train.learning_rate, train.head_learning_rate) == rates
    assert (train.batch_size, train.epochs, train.patience) == (batch, 10, patience)
    assert train.optimizer == ("adamax" if method == "mime" else "adam")
    assert config.teacher.name.endswith("patch14-336") == (method == "vlpl")
    common = build_config(name, method, settings(values, method, "common")).train
    assert common == build_config(name, "an", settings(values, "an", "common")).train
    assert build_config(name, "aevlp", settings(values, "aevlp", "published")) == build_config(
        name, "aevlp", settings(values, "aevlp", "common")
    )


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


@pytest.mark.parametrize(("text", "kind"), [("3.5", int), ("x", float), ("null", int), ("1", bool)])
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
