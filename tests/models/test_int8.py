"""The teacher with its linear layers in 8 bits."""

import torch
import yaml
from torch.nn.functional import cosine_similarity

from aevlp.experiments.demo.scenes import CLASSES, demo_scene
from aevlp.models.teacher import load_teacher
from tests.cli.run import aevlp, start
from tests.colours import COLOURS


def test_images_are_seen_nearly_as_before_and_texts_exactly():
    exact, rough = (load_teacher("demo", torch.device("cpu"), precision) for precision in ("fp32", "int8"))
    scenes = [demo_scene(5, "test", index).image.resize((exact.image_size,) * 2) for index in range(8)]
    pixels = torch.stack([torch.frombuffer(bytearray(scene.tobytes()), dtype=torch.uint8) for scene in scenes])
    pixels = pixels.view(8, exact.image_size, exact.image_size, 3).permute(0, 3, 1, 2) / 127.5 - 1
    similar = cosine_similarity(exact.encode_images(pixels), rough.encode_images(pixels))
    assert similar.min() > 0.99
    assert similar.max() < 1 - 1e-6  # it does compute otherwise
    texts = ["a photo of a boat.", "a photo of a lamp."]
    assert torch.equal(exact.encode_texts(texts), rough.encode_texts(texts))


def test_each_precision_has_a_store_of_its_own(capsys, world, tmp_path):
    table = {name: [f"a photo of a {thing}."] for name, thing in zip(COLOURS, CLASSES, strict=False)}  # words that it knows
    (tmp_path / "prompts.yaml").write_text(yaml.safe_dump(table))
    words = ["score", world, "--teacher", "demo", "--prompts", tmp_path / "prompts.yaml", "--observe", "single", "--epochs", "1"]
    words += ["--store", tmp_path / "views"]
    assert aevlp(capsys, *words, "--teacher.precision", "int8").code == 0
    assert aevlp(capsys, *words).code == 0
    assert len(list((tmp_path / "views").glob("*/manifest.json"))) == 2
    # The precision of the training is not the teacher's. In a process of its own: one has one Accelerator.
    _, err = start(*words, "--precision", "bf16").communicate()
    assert "no teacher pass" in err
