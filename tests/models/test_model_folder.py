"""Weights that would have to be unpickled."""

import pytest
import torch
from safetensors.torch import load_file

from aevlp.core.errors import UserError
from aevlp.models.classifier import build_classifier
from aevlp.models.model_folder import load_classifier, save_classifier
from aevlp.models.options import ModelOptions

CLASSES = ["ant", "bee", "cow"]


@pytest.fixture
def folder(backbone, tmp_path):
    save_classifier(build_classifier(ModelOptions(str(backbone), 32), CLASSES, seed=0), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def pickled(folder):
    """The same model, with its weights in the older format only."""
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


@pytest.fixture
def no_pickles(monkeypatch):
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("something was unpickled"))


def test_a_model_with_pickled_weights_is_refused(pickled, no_pickles):
    with pytest.raises(UserError) as caught:
        load_classifier(pickled)
    assert str(caught.value).startswith(
        f"{pickled}: the model in it has only pickled weights (pytorch_model.bin), which could run any code and are never "
        'opened; if you trust them, convert them once: python -c "from transformers import AutoModelForImageClassification as M; '
    )


def test_a_backbone_with_pickled_weights_is_refused(pickled, no_pickles):
    with pytest.raises(UserError, match=r"--backbone .* has only pickled weights \(pytorch_model\.bin\), .* convert them once"):
        build_classifier(ModelOptions(str(pickled), 32), CLASSES, seed=0)


def test_the_advice_converts_them(folder, request):
    before = load_classifier(folder).state_dict()
    pickled = request.getfixturevalue("pickled")
    with pytest.raises(UserError) as caught:
        load_classifier(pickled)
    exec(str(caught.value).split('python -c "')[1].removesuffix('"'))
    after = load_classifier(pickled).state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_a_config_cannot_have_other_weights_opened(folder, no_pickles):
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace("{", '{"transformers_weights": "adapter_model.bin",', 1))
    torch.save({}, folder / "adapter_model.bin")
    with pytest.raises(UserError, match=r"names adapter_model\.bin as its weights in config\.json"):
        load_classifier(folder)
