import json

import pytest
import torch

from aevlp.core.errors import UserError
from aevlp.models.classifier import build_classifier
from aevlp.models.model_folder import load_classifier, save_classifier
from aevlp.models.options import ModelOptions
from tests.models.heads.checkpoints import tiny, write_checkpoint

CLASSES = ["ant", "bee", "cow", "dog", "eel"]


@pytest.fixture
def classifier(backbone):
    return build_classifier(ModelOptions(str(backbone), 32), CLASSES, seed=0)


def test_the_head_is_new_and_comes_from_the_seed(backbone, classifier):
    same, other = (build_classifier(ModelOptions(str(backbone), 32), CLASSES, seed=seed) for seed in (0, 1))
    assert all(torch.equal(a, b) for a, b in zip(classifier.head(), same.head(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(classifier.head(), other.head(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(classifier.body(), other.body(), strict=True))
    assert len(classifier.head()) + len(classifier.body()) == len(list(classifier.parameters()))
    assert {len(parameter) for parameter in classifier.head()} == {len(CLASSES)}


def test_building_leaves_the_global_generator_alone(backbone):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    build_classifier(ModelOptions(str(backbone), 32), CLASSES, seed=0)
    assert torch.equal(torch.rand(1), expected)


def test_a_saved_folder_gives_the_same_logits(classifier, tmp_path):
    save_classifier(classifier.eval(), tmp_path / "model")
    again = load_classifier(tmp_path / "model").eval()
    pixels = torch.randint(0, 256, (3, 32, 32, 3), dtype=torch.uint8)
    assert torch.allclose(again(pixels), classifier(pixels), atol=1e-6)
    assert again.classes == CLASSES
    assert again.images == classifier.images
    processor = json.loads((tmp_path / "model" / "preprocessor_config.json").read_text())
    assert processor["size"] == {"height": 32, "width": 32}


def test_saving_replaces_the_older_one(classifier, tmp_path):
    save_classifier(classifier, tmp_path / "model")
    with torch.no_grad():
        classifier.head()[0].add_(1)
    save_classifier(classifier, tmp_path / "model")
    assert torch.equal(load_classifier(tmp_path / "model").head()[0], classifier.head()[0])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_pixels_are_normalised_with_the_checkpoints_own_mean_and_std(classifier):
    pixels = torch.randint(0, 256, (2, 32, 32, 3), dtype=torch.uint8)
    values = (pixels.permute(0, 3, 1, 2) / 255 - 0.5) / 0.25
    classifier.eval()
    assert torch.allclose(classifier(pixels), classifier.network(pixel_values=values).logits, atol=1e-5)


@pytest.mark.parametrize("kind", ["clip", "siglip", "dinov2", "vit"])
def test_the_head_is_found_in_every_family(kind, tmp_path):
    classifier = build_classifier(ModelOptions(str(write_checkpoint(tmp_path, tiny(kind))), 32), CLASSES, seed=0)
    assert sorted(p.shape[0] for p in classifier.head()) == [5, 5]
    assert len(classifier.body()) > 10
    classifier(torch.zeros(2, 32, 32, 3, dtype=torch.uint8)).sum().backward()
    assert all(p.grad is not None for p in [*classifier.head(), *classifier.body()])  # several processes wait for each


def test_the_head_is_new_even_if_the_checkpoint_has_one_of_its_size(backbone):
    one, other = (build_classifier(ModelOptions(str(backbone), 32), CLASSES[:3], seed=seed) for seed in (0, 1))
    assert not torch.equal(one.head()[0], other.head()[0])


def test_weights_of_another_model_are_refused(backbone, tmp_path):
    folder = write_checkpoint(tmp_path / "mixed", tiny("vit"))
    (folder / "config.json").write_bytes((backbone / "config.json").read_bytes())
    with pytest.raises(UserError, match=r"its weights lack or do not fit \d+ tensors, such as resnet"):
        build_classifier(ModelOptions(str(folder), 32), CLASSES, seed=0)


def test_an_image_size_that_does_not_fit_is_refused(tmp_path):
    folder = write_checkpoint(tmp_path, tiny("vit"))
    with pytest.raises(UserError, match=r"--model.image_size 64: the backbone of .* cannot take it"):
        build_classifier(ModelOptions(str(folder), 64), CLASSES, seed=0)


def test_broken_weights_are_refused(backbone, classifier, tmp_path):
    save_classifier(classifier, tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(UserError, match="cannot be loaded"):
        load_classifier(tmp_path / "model")
    with pytest.raises(UserError, match="not an image-classification checkpoint"):
        build_classifier(ModelOptions(str(tmp_path / "model"), 32), CLASSES, seed=0)


def test_a_folder_that_is_no_classifier_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match=r"--backbone .* not an image-classification checkpoint"):
        build_classifier(ModelOptions(str(tmp_path), 32), CLASSES, seed=0)
