"""The weights that come with the package: they load the ordinary way, are small, and know the demo's things."""

import hashlib
import json

import pytest
import torch
from tools.demo_models.captions import vocabulary
from tools.demo_models.figures import zero_shot
from transformers import AutoImageProcessor, AutoModel, AutoModelForImageClassification, AutoTokenizer

from aevlp.experiments.demo.scenes import CLASSES, demo_scene
from aevlp.models.pretrained import DEMO_BACKBONE, DEMO_CLIP

PROMPTS = [f"a photo of a {name}." for name in CLASSES]


@pytest.fixture(scope="module")
def clip():
    return AutoModel.from_pretrained(DEMO_CLIP).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(DEMO_CLIP)


@pytest.mark.parametrize(("folder", "limit"), [(DEMO_CLIP, 4_000_000), (DEMO_BACKBONE, 4_000_000)], ids=["clip", "backbone"])
def test_weights_are_small_and_recorded(folder, limit):
    weights = (folder / "model.safetensors").read_bytes()
    record = json.loads((folder / "build.json").read_text(encoding="utf-8"))
    assert len(weights) <= limit
    assert hashlib.sha256(weights).hexdigest() == record["sha256"]
    assert record["command"].startswith("python -m tools.demo_models.build")
    assert {"seed", "seconds", "torch", "transformers", "figures"} <= set(record)


@pytest.mark.parametrize(("folder", "side"), [(DEMO_CLIP, 48), (DEMO_BACKBONE, 96)], ids=["clip", "backbone"])
def test_processors_name_the_size_and_bicubic_and_squash(folder, side):
    picture = demo_scene(0, "test", 0).image
    assert AutoImageProcessor.from_pretrained(folder)(picture, return_tensors="pt")["pixel_values"].shape == (1, 3, side, side)
    settings = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))
    assert settings["size"] == {"height": side, "width": side}
    assert settings["resample"] == 3
    assert len(settings["image_mean"]) == len(settings["image_std"]) == 3


def test_clip_is_a_clip_in_single_precision(clip):
    assert type(clip).__name__ == "CLIPModel"
    assert clip.dtype == torch.float32
    assert 1 <= clip.logit_scale.exp().item() <= 100.01


def test_the_tokenizer_knows_the_classes_and_says_so_when_it_does_not(tokenizer):
    assert len(tokenizer) == len(vocabulary()) + 4
    for prompt in PROMPTS:
        ids = tokenizer(prompt)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert ids[0] == tokenizer.bos_token_id
        assert ids[-1] == tokenizer.eos_token_id
    assert tokenizer.unk_token_id in tokenizer("a photo of a zeppelin.")["input_ids"]
    assert tokenizer("A PHOTO of a Cat.")["input_ids"] == tokenizer("a photo of a cat.")["input_ids"]
    long = tokenizer("a cat and " * 20, truncation=True)["input_ids"]
    assert len(long) == 16
    assert long[-1] == tokenizer.eos_token_id


def test_padding_does_not_change_a_text(clip, tokenizer):
    with torch.no_grad():
        alone = clip.get_text_features(**tokenizer(PROMPTS[:1], return_tensors="pt")).pooler_output
        padded = clip.get_text_features(**tokenizer(PROMPTS[:1], padding="max_length", return_tensors="pt")).pooler_output
        beside = clip.get_text_features(
            **tokenizer([PROMPTS[0], "a photo of a cat, a boat and a tree."], padding=True, return_tensors="pt")
        ).pooler_output[:1]
    torch.testing.assert_close(alone, padded, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(alone, beside, rtol=1e-4, atol=1e-5)


def test_clip_finds_the_demos_things_unseen_and_more_of_them_in_tiles(clip, tokenizer):
    figures = zero_shot(clip, tokenizer, count=200)
    assert figures["whole_image_mAP"] > 3 * figures["base_rate"]
    assert figures["with_tiles_mAP"] > figures["whole_image_mAP"] + 3


def test_the_backbone_takes_a_head_for_the_demos_classes():
    own = AutoModelForImageClassification.from_pretrained(DEMO_BACKBONE)
    assert type(own).__name__ == "ResNetForImageClassification"
    assert own.dtype == torch.float32
    assert not set(own.config.label2id) & set(CLASSES)
    assert len(own.config.label2id) >= 20
    model = AutoModelForImageClassification.from_pretrained(
        DEMO_BACKBONE,
        id2label=dict(enumerate(CLASSES)),
        label2id={name: i for i, name in enumerate(CLASSES)},
        ignore_mismatched_sizes=True,
    )
    with torch.no_grad():
        assert model(torch.zeros(2, 3, 96, 96)).logits.shape == (2, 20)
