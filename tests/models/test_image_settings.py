"""Image settings are read in all the forms that checkpoints have them in."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from aevlp.core.errors import UserError
from aevlp.models.image_settings import ImageSettings, image_settings
from tests.models.test_pretrained import write

CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
OWN: dict[str, Any] = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}
TOWERS: dict[str, Any] = {"model_type": "clip", "vision_config": {"image_size": 96}}


def settings(folder: Path, config: dict[str, Any], **files: dict[str, Any]) -> ImageSettings:
    contents = {f"{name}.json": json.dumps(content).encode() for name, content in {"config": config, **files}.items()}
    return image_settings(write(folder, contents))


@pytest.mark.parametrize(
    ("preprocessor", "size"),
    [
        ({"size": 64}, 64),
        ({"size": {"shortest_edge": 64}}, 64),
        ({"size": {"height": 64, "width": 64}}, 64),
        ({"size": [64, 64]}, 64),
        ({"size": {"shortest_edge": 64}, "do_center_crop": True, "crop_size": 48}, 48),
        ({"size": 64, "do_center_crop": True, "crop_size": {"height": 48, "width": 48}}, 48),
        ({"size": 64, "do_center_crop": False, "crop_size": 48}, 64),
        ({"crop_size": 48}, 48),
        ({}, 96),
    ],
)
def test_every_form_of_a_size_is_read(tmp_path: Path, preprocessor: dict[str, Any], size: int):
    read = settings(tmp_path, TOWERS, preprocessor_config={**preprocessor, **OWN})
    assert read == ImageSettings(size, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


@pytest.mark.parametrize(
    ("config", "size", "normalisation"),
    [
        (TOWERS, 96, CLIP),
        ({"model_type": "siglip", "vision_config": {"image_size": 96}}, 96, ((0.5,) * 3, (0.5,) * 3)),
        (
            {"model_type": "siglip2", "vision_config": {"num_patches": 256, "patch_size": 16}},
            256,
            ((0.5,) * 3, (0.5,) * 3),
        ),
        ({"model_type": "resnet"}, 224, IMAGENET),
        ({"pretrained_cfg": {"input_size": [3, 288, 288], "mean": [0.1] * 3}}, 288, ((0.1,) * 3, IMAGENET[1])),
    ],
)
def test_what_no_file_says_comes_from_the_family(tmp_path: Path, config: dict[str, Any], size: int, normalisation: Any):
    assert settings(tmp_path, config) == ImageSettings(size, *normalisation)


def test_a_missing_preprocessor_file_is_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    settings(tmp_path, TOWERS)
    assert f"{tmp_path} has no preprocessor_config.json" in caplog.text


def test_the_file_of_the_whole_processor_is_read_too(tmp_path: Path):
    assert settings(tmp_path, TOWERS, processor_config={"image_processor": {"size": 64, **OWN}}).size == 64


def test_a_model_that_is_fed_plain_pixels_gets_them(tmp_path: Path):
    read = settings(tmp_path, TOWERS, preprocessor_config={"do_normalize": False, **OWN})
    assert (read.mean, read.std) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"size": {"height": 64, "width": 32}}, "images must be squares"),
        ({"size": "large"}, "images must be squares"),
        ({"size": [[64], [64]]}, "images must be squares"),
        ({"size": 1}, "images must have from 8 to 8192 pixels a side"),
        ({"size": 10**9}, "images must have from 8 to 8192 pixels a side"),
        ({"image_mean": [0.5]}, "three numbers each"),
        ({"image_mean": [0.5, math.nan, 0.5]}, "three numbers each"),
        ({"image_std": [0.5, 0, 0.5]}, "those of std above 0"),
        ({"image_std": [0.5, math.inf, 0.5]}, "three numbers each"),
    ],
)
def test_impossible_settings_are_refused(tmp_path: Path, wrong: dict[str, Any], says: str):
    with pytest.raises(UserError, match=says) as caught:
        settings(tmp_path, TOWERS, preprocessor_config=wrong)
    assert str(tmp_path) in str(caught.value)
