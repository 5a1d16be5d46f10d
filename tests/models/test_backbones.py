"""Every family of backbones is loaded, trained, saved and loaded again by the same code: tiny checkpoints of random weights."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from safetensors.torch import load_file, save_file

from aevlp.config.run_options import TrainOptions
from aevlp.core.errors import UserError
from aevlp.models.classifier import Classifier, build_classifier
from aevlp.models.image_settings import ImageSettings
from aevlp.models.model_folder import load_classifier, save_classifier
from aevlp.models.options import ModelOptions
from aevlp.models.pretrained import local_checkpoint
from aevlp.training.setup import make_optimizer
from tests.cli.run import aevlp, refused
from tests.models.heads.checkpoints import IMAGE_SIZE, WIDTH, tiny, write_checkpoint

CLASSES = ["ant", "bee", "cow", "dog"]
FROZEN = {"clip": "post_layernorm", "dinov2": "mask_token"}
"""Parameters that the logits do not depend on, by family."""
BODY_RATE, HEAD_RATE = 1e-4, 1e-2


def network_of(family):
    import transformers

    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    if family == "clip":  # both towers, as they are published
        text = {**sizes, "hidden_size": 16, "vocab_size": 20, "max_position_embeddings": 8, "bos_token_id": 1, "eos_token_id": 2}
        vision = {**sizes, "hidden_size": WIDTH, "image_size": IMAGE_SIZE, "patch_size": 8}
        return transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=12))
    if family == "swin":
        stages = {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}
        return transformers.SwinForImageClassification(transformers.SwinConfig(image_size=IMAGE_SIZE, **stages))
    return tiny(family)  # with a head for other classes


def write_backbone(folder, family):
    write_checkpoint(folder, network_of(family))
    if family == "clip":  # checkpoints of older versions hold what is no weight
        weights = load_file(folder / "model.safetensors")
        positions = {"vision_model.embeddings.position_ids": torch.arange(17)[None]}
        save_file(weights | positions, folder / "model.safetensors", {"format": "pt"})
    return folder


@dataclass(frozen=True)
class Trained:
    """A classifier before and after one step."""

    classifier: Classifier
    before: dict[str, torch.Tensor]
    optimizer: torch.optim.Optimizer

    def moved(self, parameters):
        """Return the largest change of the numbers of each parameter."""
        names = {id(parameter): name for name, parameter in self.classifier.named_parameters()}
        return [float((p - self.before[names[id(p)]]).detach().abs().max()) for p in parameters]


@pytest.fixture(scope="module", params=["resnet", "convnext", "clip", "vit", "swin", "dinov2"])
def family(request):
    return request.param


@pytest.fixture(scope="module")
def trained(family, tmp_path_factory):
    folder = write_backbone(tmp_path_factory.mktemp(family), family)
    classifier = build_classifier(ModelOptions(str(folder), IMAGE_SIZE), CLASSES, seed=0).train()
    before = {name: parameter.detach().clone() for name, parameter in classifier.named_parameters()}
    optimizer = make_optimizer(classifier, TrainOptions(learning_rate=BODY_RATE, head_learning_rate=HEAD_RATE))
    targets = torch.eye(len(CLASSES))
    torch.nn.functional.binary_cross_entropy_with_logits(classifier(pictures()), targets).backward()
    optimizer.step()
    return Trained(classifier, before, optimizer)


def pictures():
    return torch.randint(
        0, 256, (len(CLASSES), IMAGE_SIZE, IMAGE_SIZE, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def test_the_head_is_trained_at_its_own_rate_and_the_body_at_its(trained):
    head, body = trained.classifier.head(), trained.classifier.body()
    assert sorted(parameter.shape[0] for parameter in head) == [len(CLASSES)] * 2
    # The first step of Adam is as long as the learning rate, for every number that has a gradient.
    assert trained.moved(head) == pytest.approx([HEAD_RATE] * 2, rel=0.01)
    moved = trained.moved(body)
    assert max(moved) == pytest.approx(BODY_RATE, rel=0.01)
    assert sum(step > 0 for step in moved) > len(body) / 2  # a bias before a normalisation has no gradient to speak of
    groups = [{id(p) for p in group["params"]} for group in trained.optimizer.param_groups]
    assert groups == [{id(p) for p in body}, {id(p) for p in head}]


def test_only_what_has_no_part_in_the_logits_is_frozen(family, trained):
    frozen = [name for name, parameter in trained.classifier.named_parameters() if not parameter.requires_grad]
    assert [FROZEN.get(family, "?") in name for name in frozen] == [True] * len(frozen)
    assert bool(frozen) == (family in FROZEN)
    everything = list(trained.classifier.parameters())
    assert len(everything) == len(trained.classifier.head()) + len(trained.classifier.body()) + len(frozen)
    assert all(parameter.grad is not None for parameter in everything if parameter.requires_grad)


def test_the_saved_model_gives_the_same_logits_with_and_without_aevlp(trained, tmp_path):
    from transformers import AutoModelForImageClassification

    classifier = trained.classifier.eval()
    save_classifier(classifier, tmp_path / "model")
    with torch.no_grad():
        expected = classifier(pictures())
        assert torch.allclose(load_classifier(tmp_path / "model").eval()(pictures()), expected, atol=1e-6)
        alone = AutoModelForImageClassification.from_pretrained(tmp_path / "model").eval()
        processor = json.loads((tmp_path / "model" / "preprocessor_config.json").read_text())
        mean, std = (torch.tensor(processor[name]).view(3, 1, 1) for name in ("image_mean", "image_std"))
        logits = alone(pixel_values=(pictures().permute(0, 3, 1, 2) / 255 - mean) / std).logits
    assert torch.allclose(logits, expected, atol=1e-5)
    assert alone.config.id2label == dict(enumerate(CLASSES))
    assert alone.config.problem_type == "multi_label_classification"
    weights = load_file(tmp_path / "model" / "model.safetensors")
    others = ("text_", "logit_scale", "visual_projection")  # of CLIP, the image encoder alone is kept
    assert not [name for name in weights if name.startswith(others)]


def test_the_clip_of_the_paper_is_found_by_its_name_on_the_hub(tmp_path, monkeypatch):
    name, commit = "openai/clip-vit-large-patch14-336", "0123456789abcdef0123456789abcdef01234567"
    model = tmp_path / "cache" / f"models--{name.replace('/', '--')}"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(commit)
    folder = write_backbone(model / "snapshots" / commit, "clip")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    classifier = build_classifier(ModelOptions(name, IMAGE_SIZE), CLASSES, seed=0)
    published = load_file(folder / "model.safetensors")
    ours = classifier.network.state_dict()
    encoder = "vision_model.encoder.layers.0.mlp.fc1.weight"
    assert torch.equal(ours[encoder], published[encoder])
    with pytest.raises(UserError, match=rf"^--model\.image_size 448: the backbone of --backbone {name} cannot take it"):
        build_classifier(ModelOptions(name, 448), CLASSES, seed=0)


@pytest.mark.parametrize("kind", ["CLIPVision", "SiglipVision"])
def test_an_image_encoder_without_its_text_encoder_is_refused(tmp_path, kind):
    import transformers

    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    write_checkpoint(tmp_path, getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**sizes)))
    with pytest.raises(
        UserError, match=r"--backbone .* has only an image encoder \(\w+_vision_model\), .*; give the whole model's"
    ):
        build_classifier(ModelOptions(str(tmp_path), IMAGE_SIZE), CLASSES, seed=0)


def test_the_image_encoder_of_the_demos_clip_is_a_backbone(capsys, world, plain, tmp_path):
    from transformers import pipeline

    words = ["train", world, *plain, "--method", "an", "--epochs", "1", "--backbone", "demo-clip", "--out", tmp_path / "run"]
    assert "--model.image_size 32: the backbone of --backbone demo-clip cannot take it" in refused(capsys, *words)
    assert not (tmp_path / "run").exists()
    assert aevlp(capsys, *words, "--model.image_size", "48").code == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["backbone"].startswith("demo-clip")
    classify = pipeline("image-classification", model=str(tmp_path / "run" / "model"), function_to_apply="sigmoid")
    found = classify(str(next((world / "images").iterdir())), top_k=6)
    assert {one["label"] for one in found} == {"black", "blue", "green", "red", "violet", "yellow"}


def test_both_names_of_the_demo_clip_mean_one_checkpoint():
    as_teacher = local_checkpoint("demo", role="teacher")
    as_backbone = local_checkpoint("demo-clip", role="backbone")
    assert as_backbone.folder == as_teacher.folder
    assert as_backbone.fingerprint == as_teacher.fingerprint
    assert local_checkpoint("demo", role="backbone").folder != as_backbone.folder


STEP = """
import torch, transformers
from aevlp.models.classifier import Classifier
from aevlp.models.image_settings import ImageSettings

torch.manual_seed(0)
config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 16], depths=[1, 1], layer_type="basic", num_labels=3)
network = transformers.ResNetForImageClassification(config).eval()
pixels = torch.randint(0, 256, (4, SIZE, SIZE, 3), dtype=torch.uint8)

def gradient(logits):
    network.zero_grad()
    logits.square().sum().backward()
    return network.resnet.encoder.stages[1].layers[0].shortcut.convolution.weight.grad.clone()

expected = gradient(network(pixel_values=pixels.permute(0, 3, 1, 2).contiguous() / 255).logits)
found = gradient(Classifier(network, ImageSettings(SIZE, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))(pixels))
print(float((found - expected).abs().max() / expected.abs().max()))
"""


@pytest.mark.parametrize("size", [224, 448])
def test_a_shortcut_of_few_channels_gets_its_gradient(size):
    """oneDNN writes past its workspace if such a network's channels are last: it crashes, hangs or computes nonsense."""
    words = [sys.executable, "-c", STEP.replace("SIZE", str(size))]
    assert float(subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=600).stdout) < 1e-3


@pytest.mark.parametrize("kind", ["ResNet", "ConvNext", "EfficientNet", "MobileNetV2", "RegNet", "demo"])
def test_the_networks_in_use_have_their_channels_last(kind):
    """As they are by default, without memory for their weights."""
    import transformers

    with torch.device("meta"):
        if kind == "demo":
            config = transformers.AutoConfig.from_pretrained(local_checkpoint("demo", role="backbone").folder)
            network = transformers.AutoModelForImageClassification.from_config(config)
        else:
            network = getattr(transformers, f"{kind}ForImageClassification")(getattr(transformers, f"{kind}Config")())
    classifier = Classifier(network, ImageSettings(224, (0.5,) * 3, (0.25,) * 3))
    assert classifier.layout == torch.channels_last
    maps = [p for p in classifier.parameters() if p.ndim == 4 and min(p.shape[1:]) > 1]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in maps)
