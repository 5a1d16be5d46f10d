from dataclasses import replace

import pytest

from aevlp.config.config import build_config
from aevlp.core.engine import make_accelerator
from aevlp.data.load import load
from aevlp.training.setup import prepare


@pytest.fixture(scope="session")
def untrained(world, backbone):
    """A function that prepares a training on the world of colours: config, data, setup, accelerator."""

    def make(store, *, method="aevlp", rows=None, **values):
        usual = {
            "data.observe": "single",
            "model.backbone": str(backbone),
            "model.image_size": 32,
            "device": "cpu",
            "train.epochs": 2,
            "train.workers": 1,
            "teacher.name": "tests.colours:teacher",
            "damp.temperature": 0.1,
        }
        config = build_config("default", method, {**usual, **values})
        data = load(world, config.data, store)
        if rows is not None:
            data = replace(data, train=data.train.part(rows))
        accelerator = make_accelerator(config.engine)
        setup = prepare(config, data, store, accelerator)
        setup.source.fill()
        return config, data, setup, accelerator

    return make
