"""The recipes hold the constants of the papers, cell by cell."""

from functools import cache
from typing import Any

import pytest

from aevlp.config.config import build_config
from aevlp.config.defaults import settings
from aevlp.config.recipe import read_recipe, recipe_file
from aevlp.data.benchmarks import BENCHMARKS
from tests.config.test_recipe import flat

NAMES = ["voc", "coco", "nus", "cub"]
COLUMNS: dict[str, tuple[Any, ...]] = {
    "train.epochs": (8, 8, 10, 10),
    "train.batch_size": (8, 16, 16, 8),
    "train.learning_rate": (1e-5,) * 4,
    "train.head_learning_rate": (1e-4,) * 4,
    "train.expected_positives": (1.5, 2.9, 1.9, 31.4),
    "train.optimizer": ("adam",) * 4,
    "train.mode": ("full",) * 4,
    "train.patience": (2,) * 4,
    "train.max_drop": (2.0,) * 4,
    "model.backbone": ("microsoft/resnet-50",) * 4,
    "model.image_size": (448,) * 4,
    "teacher.name": ("openai/clip-vit-base-patch16",) * 4,
    "teacher.prompt": ("a photo of a {}.",) * 4,
    "compat": ("paper",) * 4,
    "damp.overlap": (0.2,) * 4,
    "damp.augment": (True,) * 4,
    "damp.noise": (True,) * 4,
    "damp.tune": (False,) * 4,
    "damp.grid": (4, 4, 4, 5),
    "damp.draws": (None,) * 4,
    "damp.neighbours": (20, 62, 50, 312),
    "damp.temperature": (0.01, 0.01, 0.01, 0.1),
    "damp.local_threshold": (0.0, 0.3, 0.3, 0.005),
    "damp.global_threshold": (0.5, 0.5, 0.6, 0.005),
    "damp.top_k": (3, 3, 3, 32),
    "damp.negative_fraction": (0.2, 0.3, 0.2, 0.2),
    "loss.w0": (0,) * 4,
    "loss.w1": (2, 10, 10, 10),
    "loss.b0": (-2,) * 4,
    "loss.b1": (-2, -8, -8, -8),
    "loss.mu0": (0.5,) * 4,
    "loss.mu1": (0.8,) * 4,
    "loss.sigma0": (2.0,) * 4,
    "loss.sigma1": (0.5,) * 4,
    "loss.q1": (1, 1, 1, 1.5),
    "loss.q2": (0.01,) * 4,
    "loss.q3": (0.9,) * 4,
    "loss.lambda1": (0.4, 0.5, 0.5, 0.2),
    "loss.lambda2": (0.7, 0.7, 0.7, 0.8),
    "loss.eta": (0.05, 0.001, 0.001, 0.01),
    "gr:loss.w1": (2, 10, 10, 10),
    "gr:loss.b1": (-2, -8, -8, -8),
    "gr:loss.q1": (1, 1, 1, 1.5),
    "em:loss.alpha": (0.2, 0.1, 0.1, 0.01),
    "vlpl:loss.alpha": (0.2, 0.1, 0.1, 0.01),
    "em-apl:loss.alpha": (0.2, 0.1, 0.1, 0.01),
    "em-apl:loss.beta": (0.02, 0.9, 0.2, 0.4),
    "em-apl:apl.warmup": (5, 5, 4, 3),
    "vlpl:loss.beta_pos": (0.7,) * 4,
    "vlpl:vlpl.temperature": (0.01,) * 4,
    "vlpl:vlpl.threshold": (0.3,) * 4,
    "ll-r:loss.delta": (0.005,) * 4,
    "ll-ct:ll-ct.delta": (0.002,) * 4,
    "ll-cp:ll-cp.delta": (0.001,) * 4,
    "boostlu+ll-r:boostlu.factor": (5,) * 4,
    "mime:confident.warmup": (2, 2, 2, 5),
    "mime:confident.threshold": (0.95,) * 4,
}
"""The constants of the papers on VOC, COCO, NUS-WIDE and CUB; of `aevlp`, unless another method stands before the key."""
LARGE = ("ll-r", "ll-ct", "ll-cp", "boostlu+ll-r", "bce+ll-ct")
PUBLISHED: dict[str, tuple[Any, ...]] = {
    **{f"{method}:train.epochs": (10,) * 4 for method in ("em", "em-apl", "vlpl", "role", "mime", *LARGE)},
    **{f"{method}:train.batch_size": (8, 16, 16, 8) for method in ("em", "em-apl")},
    **{f"{method}:train.learning_rate": (1e-5, 1e-5, 1e-5, 1e-4) for method in ("em", "em-apl", "vlpl")},
    **{f"{method}:train.head_learning_rate": (1e-5, 1e-5, 1e-5, 1e-4) for method in ("em", "em-apl", "vlpl")},
    **{f"{method}:train.patience": (1,) * 4 for method in ("em", "em-apl")},
    **{f"vlpl:train.{key}": (None,) * 4 for key in ("patience", "max_drop")},
    "vlpl:train.batch_size": (8,) * 4,
    "vlpl:teacher.name": ("openai/clip-vit-large-patch14-336",) * 4,
    **{f"{method}:train.batch_size": (16,) * 4 for method in LARGE},
    **{f"{method}:train.learning_rate": (1e-5,) * 4 for method in LARGE},
    **{f"{method}:train.head_learning_rate": (1e-4,) * 4 for method in LARGE},
    "mime:train.optimizer": ("adamax",) * 4,
    "mime:train.learning_rate": (1e-4,) * 4,
    "mime:train.head_learning_rate": (1e-3,) * 4,
    "mime:train.batch_size": (32, 32, 16, 16),
    "latent+bce+confident:train.batch_size": (32, 32, 16, 16),
    **{f"{method}:loss.alpha": (0.2, 0.1, 0.1, 0.01) for method in ("em", "em-apl", "vlpl")},
    "em-apl:loss.beta": (0.02, 0.9, 0.2, 0.4),
    "em-apl:apl.warmup": (5, 5, 4, 3),
    "mime:confident.warmup": (2, 2, 2, 5),
    **{f"{method}:train.optimizer": ("adam",) * 4 for method in ("em", "em-apl", "vlpl", "role", *LARGE)},
}
"""How the other methods were published, where it differs from how `aevlp` was."""
DEFAULT: dict[str, Any] = {
    "train.epochs": 8,
    "train.batch_size": 16,
    "train.expected_positives": None,
    "loss.w1": 2,
    "loss.b1": -2,
    "loss.q1": 1,
    "loss.lambda1": 0.4,
    "loss.lambda2": 0.7,
    "loss.eta": 0.01,
    "damp.temperature": 0.01,
    "damp.local_threshold": 0.0,
    "damp.global_threshold": 0.5,
    "damp.top_k": 3,
    "damp.negative_fraction": 0.2,
    "damp.grid": 4,
    "damp.neighbours": None,
    "damp.draws": 4,
}
"""What `default` has of its own; where all benchmarks agree, it agrees with them."""


read = cache(lambda name: read_recipe(recipe_file(name)))


@cache
def built(name: str, method: str, protocol: str = "common") -> dict[str, Any]:
    return flat(build_config(name, method, settings(read(name), method, protocol)).as_recipe())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("protocol", "table"), [("common", COLUMNS), ("published", PUBLISHED)])
def test_the_benchmarks_have_the_constants_of_the_papers(name, protocol, table):
    for entry, wanted in table.items():
        method, _, key = entry.rpartition(":")
        assert built(name, method or "aevlp", protocol)[key] == wanted[NAMES.index(name)], entry


@pytest.mark.parametrize("name", NAMES)
def test_no_value_of_a_benchmarks_recipe_is_without_a_source(name):
    values = read(name)
    bound = {entry.rpartition(":")[2] for entry in COLUMNS} | {"method", "teacher.prompts"}
    assert {key for key in values if not key.startswith("published.")} <= bound
    published = {key.removeprefix("published.").partition(".")[::2] for key in values if key.startswith("published.")}
    assert {f"{method}:{key}" for method, key in published} <= set(PUBLISHED)


@pytest.mark.parametrize("name", [*NAMES, "default"])
def test_a_recipe_shows_every_constant_of_the_method(name):
    """Also those that are the same everywhere: who edits a recipe sees what there is."""
    constants = {key: value for key, (value, *_) in COLUMNS.items() if ":" not in key}
    numbers = {key for key, value in constants.items() if isinstance(value, int | float) and not isinstance(value, bool)}
    assert numbers <= set(read(name))


def test_default_has_the_constants_of_the_method():
    found = built("default", "aevlp")
    agreed = {key: wanted[0] for key, wanted in COLUMNS.items() if ":" not in key and len(set(wanted)) == 1}
    for key, wanted in (agreed | DEFAULT).items():
        assert found[key] == wanted, key
    everywhere = {key for key in COLUMNS if ":" not in key}
    assert everywhere == set(agreed | DEFAULT)  # none is forgotten


def test_noise_comes_from_no_more_classes_than_there_are():
    for benchmark in BENCHMARKS:
        assert built(benchmark.name, "aevlp")["damp.neighbours"] <= benchmark.class_count
