"""Training the two models from nothing, in miniature."""

import json

import pytest
import torch
from tools.demo_models.build import main
from tools.demo_models.clip_training import ClipPlan, pace, patch_classes, train_clip
from tools.demo_models.muon import orthogonal
from tools.demo_models.scenes import NAMES, draw_training_scenes
from transformers import AutoModel, AutoModelForImageClassification, AutoTokenizer

from aevlp.experiments.demo.scenes import CLASSES, demo_scene


@pytest.mark.soak
def test_a_miniature_build_runs_end_to_end(tmp_path, capfd):
    main(["--share", "0.0005", "--seed", "3", "--out", str(tmp_path)])
    said = capfd.readouterr().out
    assert "clip: step 2 of 2" in said
    assert "backbone: step 2 of 2" in said
    for part in ("clip", "backbone"):
        record = json.loads((tmp_path / part / "build.json").read_text(encoding="utf-8"))
        assert record["seed"] == 3
        assert record["command"] == "python -m tools.demo_models.build --seed 3 --share 0.0005"
    assert len(AutoTokenizer.from_pretrained(tmp_path / "clip")) > 60
    assert AutoModel.from_pretrained(tmp_path / "clip").dtype == torch.float32
    assert AutoModelForImageClassification.from_pretrained(tmp_path / "backbone").dtype == torch.float32


def test_the_same_seed_gives_the_same_weights(tmp_path):
    scenes = draw_training_scenes("captioned", seed=0, count=40, side=54, log=print)
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        train_clip(scenes, tmp_path / name, seed=seed, plan=ClipPlan(steps=2, batch=16), log=print)
    one, two, three = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "three"))
    assert one == two
    assert one != three


def test_training_scenes_come_from_their_own_seeds():
    scenes = draw_training_scenes("captioned", seed=0, count=20, side=54, log=print)
    again = draw_training_scenes("captioned", seed=0, count=5, side=54, log=print)
    assert (scenes.pixels[:5] == again.pixels).all()
    assert scenes.where.max() <= len(NAMES)
    demo = [demo_scene(0, split, index).labels for split in ("train", "test") for index in range(20)]
    assert [sorted(areas) for areas in scenes.areas] not in (demo[:20], demo[20:])


def test_pretraining_scenes_show_nothing_of_the_demo():
    scenes = draw_training_scenes("pretraining", seed=0, count=30, side=96, log=print)
    assert not set(CLASSES) & {name for areas in scenes.areas for name in areas}


def test_a_patch_belongs_to_the_class_most_seen_in_it():
    where = torch.zeros(1, 48, 48, dtype=torch.int64)
    where[0, :8, :8] = 7
    where[0, :8, 8:11] = 3  # three eighths of the second patch
    where[0, 8:9, :8] = 5  # one eighth of the patch below: background
    classes = patch_classes(where)[0]
    assert classes.shape == (36,)
    assert classes[0] == 7
    assert classes[1] == 3
    assert classes[6] == 0


def test_the_rate_rises_then_falls_to_nothing():
    rates = [pace(step, 1000) for step in range(1, 1001)]
    assert rates[0] < 0.1
    assert max(rates) > 0.95
    assert rates[-1] == 0
    assert rates[600:] == sorted(rates[600:], reverse=True)


def test_muon_steps_have_equal_singular_values():
    generator = torch.Generator().manual_seed(0)
    for shape in ((8, 20), (20, 8)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape, generator=generator)))
        assert values.min() > 0.6
        assert values.max() < 1.3
