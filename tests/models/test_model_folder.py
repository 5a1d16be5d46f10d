"""A model folder may come from anywhere: no code is run, and what cannot be a model of ours is refused in one line."""

import io
import json
import math
import os
import stat

import pytest
import torch
from safetensors.torch import load_file, save_file

from aevlp.core.errors import UserError
from aevlp.models.classifier import build_classifier
from aevlp.models.feature_classifier import FeatureClassifier
from aevlp.models.model_folder import load_classifier, model_classes, save_classifier
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


@pytest.fixture
def of_features(tmp_path):
    save_classifier(FeatureClassifier(4, 1.0, CLASSES), tmp_path / "of-features")
    return tmp_path / "of-features"


def change_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def why_refused(folder):
    with pytest.raises(UserError) as caught:
        load_classifier(folder)
    assert str(caught.value).startswith(f"{folder}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_code_in_the_folder_is_never_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    change_config(folder, model_type="own", auto_map={"AutoConfig": "code.C", "AutoModelForImageClassification": "code.M"})
    assert "(it needs code of its own (auto_map), which is never run)" in why_refused(folder)
    with pytest.raises(UserError, match=r"--backbone .*\(it needs code of its own \(auto_map\), which is never run\)"):
        build_classifier(ModelOptions(str(folder), 32), CLASSES, seed=0)
    assert not (tmp_path / "ran").exists()


def test_a_custom_head_goes_on_a_network_only(folder):
    head = {"backbone_type": "resnet", "head": "boostlu", "options": {}, "width": 16}
    for name in ("pipeline", "AutoConfig", "no_such_thing"):
        assert name in why_refused(change_config(folder, model_type="aevlp", aevlp=head, architectures=[name]))


def test_weights_that_are_missing_are_not_made_up(folder):
    change_weights(folder, lambda weights: [weights.pop(name) for name in list(weights) if name.startswith("classifier")])
    assert "2 tensors are missing or superfluous, such as classifier" in why_refused(folder)


def test_weights_of_nothing_are_refused(folder, of_features):
    for place in (folder, of_features):
        change_weights(place, lambda weights: weights.update(foreign=torch.ones(2)))
        assert "1 tensors are missing or superfluous, such as foreign" in why_refused(place)


def test_features_of_another_width_are_refused_without_making_room_for_them(of_features):
    saved = {"features": 10**12, "scale": 1.0}
    assert "1 tensors are missing or superfluous, such as classifier.weight" in why_refused(
        change_config(of_features, aevlp=saved)
    )


@pytest.mark.parametrize("scale", [0, -1, math.nan, math.inf, "1", None])
def test_a_scale_that_features_cannot_be_divided_by_is_refused(of_features, scale):
    assert f"the scale of its features is {scale}" in why_refused(
        change_config(of_features, aevlp={"features": 4, "scale": scale})
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_refused(folder, of_features, value):
    def spoil(weights):
        name = next(name for name in weights if name.startswith("classifier") and name.endswith("weight"))
        weights[name][0, 0] = value

    for place in (folder, of_features):
        assert "are not all finite numbers; get the file again" in why_refused(change_weights(place, spoil))
    change_weights(folder, lambda weights: next(w for n, w in weights.items() if "convolution" in n).fill_(value))
    with pytest.raises(UserError, match=r"--backbone .* are not all finite numbers"):
        build_classifier(ModelOptions(str(folder), 32), CLASSES, seed=0)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"0": "ant", "1": "ant", "2": "cow"}, "names two classes 'ant'"),
        ({"0": "ant", "1": "bee", "3": "cow"}, "does not name the classes 0, 1, 2"),
        ({"x": "ant"}, "does not name the classes 0, 1, 2"),
        (["ant", "bee", "cow"], "does not name the classes 0, 1, 2"),
        (None, "does not name the classes 0, 1, 2"),
        ({"0": "ant", "1": "", "2": "cow"}, "a class without a name"),
        ({"0": "ant", "1": 5, "2": "cow"}, "a class without a name"),
        ({}, "a class without a name"),
    ],
)
def test_class_names_must_tell_the_outputs_apart(folder, of_features, names, says):
    for place in (folder, of_features):
        change_config(place, id2label=names)
        assert says in why_refused(place)
        with pytest.raises(UserError, match=says):
            model_classes(place)


@pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "model.safetensors"])
def test_a_pipe_in_the_folder_is_not_waited_for(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(UserError, match=rf"holds {name}, a pipe, a socket or a device, not a regular file; remove it"):
        load_classifier(folder)


def test_brackets_without_end_are_refused(folder):
    (folder / "config.json").write_text('{"a":' + "[" * 100_000)
    with pytest.raises(UserError, match=r"config\.json cannot be read as JSON \(RecursionError"):
        load_classifier(folder)


def test_those_who_may_read_the_folder_may_read_the_weights(backbone, tmp_path):
    before = os.umask(0o027)
    try:
        save_classifier(build_classifier(ModelOptions(str(backbone), 32), CLASSES, seed=0), tmp_path / "model")
        save_classifier(FeatureClassifier(4, 1.0, CLASSES), tmp_path / "of-features")
    finally:
        os.umask(before)
    for place in (tmp_path / "model", tmp_path / "of-features"):
        assert {stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()} == {0o640}
