"""Heads on top of real backbones: built, trained, saved, loaded."""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from transformers import AutoModelForImageClassification

from aevlp.core.errors import UserError
from aevlp.models.classifier import Classifier, CustomHead, build_classifier, head_of, replace_head
from aevlp.models.head_layers import BoostedMap
from aevlp.models.heads import HEADS
from aevlp.models.heads.boostlu import BoostOptions
from aevlp.models.heads.latent import LatentOptions
from aevlp.models.image_settings import ImageSettings
from aevlp.models.model_folder import load_classifier, save_classifier
from aevlp.models.options import ModelOptions
from tests.models.heads.checkpoints import IMAGE_SIZE, WIDTH, tiny, write_checkpoint

CLASSES = ["ant", "bee", "cow", "dog", "eel"]
KINDS = ["resnet", "convnext", "vit"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A checkpoint folder per kind of backbone."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {kind: write_checkpoint(root / kind, tiny(kind)) for kind in [*KINDS, "clip", "dinov2"]}


@pytest.fixture
def pixels():
    return torch.randint(0, 256, (3, IMAGE_SIZE, IMAGE_SIZE, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def build(folder, head=None, options=None, seed=0):
    return build_classifier(ModelOptions(str(folder), IMAGE_SIZE), CLASSES, seed, None if head is None else HEADS[head], options)


OWN = pytest.mark.parametrize(
    ("head", "options"), [("boostlu", BoostOptions(3.0)), ("latent", LatentOptions(size=8, weight=0.5))]
)


@OWN
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_classifier_says_exactly_the_same(kind, head, options, folders, pixels, tmp_path):
    classifier = build(folders[kind], head, options)
    classifier.train()(pixels).sum().backward()  # leaves its traces in the head and in batch statistics
    save_classifier(classifier, tmp_path / "model")
    again = load_classifier(tmp_path / "model").eval()
    expected = classifier.eval()(pixels)
    assert torch.equal(again(pixels), expected)
    assert again.custom_head == CustomHead(HEADS[head], options, WIDTH)
    assert again.classes == CLASSES
    assert again.images == classifier.images
    save_classifier(again, tmp_path / "copy")
    assert torch.equal(load_classifier(tmp_path / "copy").eval()(pixels), expected)


@OWN
def test_loading_leaves_the_global_generator_alone(head, options, folders, tmp_path):
    save_classifier(build(folders["resnet"], head, options), tmp_path / "model")
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    load_classifier(tmp_path / "model")
    assert torch.equal(torch.rand(1), expected)


@OWN
def test_transformers_alone_refuses_the_folder(head, options, folders, tmp_path):
    save_classifier(build(folders["resnet"], head, options), tmp_path / "model")
    with pytest.raises(ValueError, match="model type `aevlp`"):
        AutoModelForImageClassification.from_pretrained(tmp_path / "model")
    with pytest.raises(UserError, match="a model with a custom head cannot be a backbone"):
        build(tmp_path / "model")


def test_transformers_alone_reads_a_folder_with_a_plain_head(folders, pixels, tmp_path):
    classifier = build(folders["resnet"])
    save_classifier(classifier, tmp_path / "model")
    network = AutoModelForImageClassification.from_pretrained(tmp_path / "model").eval()
    assert torch.equal(Classifier(network, classifier.images)(pixels), classifier.eval()(pixels))
    assert "aevlp" not in (tmp_path / "model" / "config.json").read_text()


def spoilt(config, **changes):
    content = json.loads(config.read_text())
    content["aevlp"] |= changes
    config.write_text(json.dumps(content))


@pytest.mark.parametrize("changes", [{"head": "newer"}, {"options": {"size": 8, "depth": 2}}, {"options": {"size": 9}}])
def test_a_folder_whose_head_does_not_fit_is_refused(changes, folders, tmp_path):
    save_classifier(build(folders["resnet"], "latent", LatentOptions(size=8)), tmp_path / "model")
    spoilt(tmp_path / "model" / "config.json", **changes)
    with pytest.raises(UserError, match="model: the model in it cannot be loaded"):
        load_classifier(tmp_path / "model")


def test_a_folder_that_lacks_a_weight_of_the_head_is_refused(folders, tmp_path):
    from safetensors.torch import load_file, save_file

    save_classifier(build(folders["resnet"], "latent", LatentOptions(size=8)), tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    del weights["classifier.gate"]
    save_file(weights, tmp_path / "model" / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"1 tensors are missing or superfluous, such as classifier\.gate"):
        load_classifier(tmp_path / "model")


@OWN
def test_the_head_comes_from_the_seed_and_the_rest_from_the_checkpoint(head, options, folders):
    first, same, other = (build(folders["resnet"], head, options, seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(first.head(), same.head(), strict=True))
    assert not torch.equal(first.head()[0], other.head()[0])
    assert all(torch.equal(a, b) for a, b in zip(first.body(), other.body(), strict=True))


@OWN
@pytest.mark.parametrize("kind", KINDS)
def test_training_reaches_every_parameter_that_is_not_frozen(kind, head, options, folders, pixels):
    classifier = build(folders[kind], head, options).train()
    (classifier(pixels).square().mean() + classifier.penalty).backward()
    assert len(classifier.body()) > 5
    assert all(p.grad is not None and p.grad.isfinite().all() for p in [*classifier.head(), *classifier.body()])
    assert max(p.grad.abs().max() for p in classifier.body()) > 0


def test_a_layer_that_the_map_passes_by_is_frozen(folders):
    frozen = {name for name, p in build(folders["convnext"], "boostlu").named_parameters() if not p.requires_grad}
    assert frozen == {"network.convnext.layernorm.weight", "network.convnext.layernorm.bias"}
    assert all(p.requires_grad for p in build(folders["convnext"], "latent").parameters())


def test_the_boosted_map_looks_at_the_last_feature_map(folders, pixels):
    plain, boosted = build(folders["resnet"]).eval(), build(folders["resnet"], "boostlu", BoostOptions(1.0)).eval()
    weight, bias = boosted.head()
    assert torch.allclose(boosted(pixels), plain.features(pixels) @ weight.T + bias, atol=1e-5)


def test_features_are_what_a_plain_head_sees(folders, pixels):
    classifier = build(folders["resnet"]).eval()
    values = pixels.permute(0, 3, 1, 2).float() / 255
    values = ((values - classifier.mean) / classifier.std).contiguous(memory_format=classifier.layout)
    expected = classifier.network.resnet(values).pooler_output.flatten(1)
    assert expected.shape == (3, WIDTH)
    assert torch.equal(classifier.features(pixels), expected)
    weight, bias = classifier.head()
    assert torch.allclose(classifier.features(pixels) @ weight.T + bias, classifier(pixels), atol=1e-6)


@pytest.mark.parametrize("head", [None, "boostlu", "latent"])
@pytest.mark.parametrize(("kind", "width"), [("resnet", WIDTH), ("convnext", WIDTH), ("vit", WIDTH), ("dinov2", 2 * WIDTH)])
def test_features_have_a_row_per_image(kind, width, head, folders, pixels):
    classifier = build(folders[kind], head).eval()
    with torch.autocast("cpu", torch.bfloat16):
        features = classifier.features(pixels)
    assert features.shape == (3, WIDTH if head == "boostlu" else width)  # DINOv2's own head sees class token and patches
    assert features.dtype == torch.float32
    assert classifier(pixels).shape == (3, 5)


def test_features_of_tokens_leave_the_class_token_out(folders, pixels):
    classifier = build(folders["vit"], "boostlu").eval()
    values = (pixels.permute(0, 3, 1, 2).float() / 255 - classifier.mean) / classifier.std
    tokens = classifier.network.vit(values).last_hidden_state
    assert tokens.shape == (3, 17, WIDTH)
    assert torch.allclose(classifier.features(pixels), tokens[:, 1:].mean(1), atol=1e-6)


@pytest.mark.parametrize("head", [None, "boostlu"])
def test_a_head_without_a_penalty_adds_nothing(head, folders, pixels):
    classifier = build(folders["resnet"], head).train()
    classifier(pixels)
    assert torch.equal(classifier.penalty, torch.zeros(()))


def test_the_penalty_of_the_latent_head_is_passed_on(folders, pixels):
    classifier = build(folders["resnet"], "latent", LatentOptions(weight=1.0)).train()
    assert classifier.penalty == 0  # before the first pass
    classifier(pixels)
    assert classifier.penalty > 0


def test_a_backbone_without_a_map_is_refused(folders):
    with pytest.raises(UserError, match=r"--backbone .*clip: a CLIPFor\w+ has no feature map, which the head boostlu needs"):
        build(folders["clip"], "boostlu")
    assert len(build(folders["clip"], "latent").head()) == 7


@pytest.mark.parametrize("head", ["boostlu", "latent"])
def test_an_image_size_that_does_not_fit_is_refused(head, folders):
    with pytest.raises(UserError, match=r"--model.image_size 64: the backbone of .* cannot take it"):
        build_classifier(ModelOptions(str(folders["vit"]), 64), CLASSES, 0, HEADS[head])


class TimmBody(nn.Module):
    """As a network of timm: its classifier has whatever name, its map comes from forward_features."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 4, 4)
        self.top = nn.Sequential(nn.Identity(), nn.Linear(6, 2))

    def get_classifier(self):
        return self.top[1]

    def forward_features(self, x):
        return self.stem(x)


class TimmWrapper(nn.Module):
    """As transformers wraps it."""

    def __init__(self):
        super().__init__()
        self.timm_model = TimmBody()
        self.config = type("Config", (), {"num_labels": 2})


def test_a_head_takes_its_place_in_a_timm_network(pixels):
    network = TimmWrapper()
    own = CustomHead(HEADS["boostlu"], BoostOptions(1.0), 6)
    replace_head(network, own)
    assert isinstance(network.timm_model.top[1], BoostedMap)
    classifier = Classifier(network, ImageSettings(IMAGE_SIZE, (0.0,) * 3, (1.0,) * 3), own)
    expected = head_of(network)(network.timm_model.stem(pixels.permute(0, 3, 1, 2) / 255))
    assert torch.allclose(classifier(pixels), expected, atol=1e-6)


def test_heads_are_listed_without_torch():
    code = "import sys, aevlp.models.heads as h; assert not {'torch', 'numpy'} & set(sys.modules); print(*h.HEADS)"
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"boostlu", "latent"} <= set(listed)
