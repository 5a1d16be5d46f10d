"""A teacher gives the features of its checkpoint, quietly, and refuses what would silently give other ones."""

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from aevlp.core.errors import UserError
from aevlp.models.teacher import load_teacher
from tests.models.tiny_teachers import CPU, TEXTS, normalised, picture, plain_model, save_siglip, teacher_of

# Features


def test_clip_gives_its_checkpoints_features_in_float32(clip: Path):
    from transformers import CLIPTokenizer

    teacher, model, tokenizer = teacher_of(clip), plain_model(clip), CLIPTokenizer.from_pretrained(clip)
    assert teacher.image_size == 32
    channels = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    pixels = (picture() - torch.tensor(channels[0]).view(3, 1, 1)) / torch.tensor(channels[1]).view(3, 1, 1)
    with torch.no_grad():
        images = model.get_image_features(pixel_values=pixels).pooler_output
        each = [model.get_text_features(**tokenizer([t], return_tensors="pt")).pooler_output for t in TEXTS]
    torch.testing.assert_close(teacher.encode_images(normalised(teacher, picture())), images)
    torch.testing.assert_close(teacher.encode_texts(TEXTS), torch.cat(each))
    assert teacher.encode_texts(TEXTS).dtype == torch.float32


def test_siglip_pads_to_the_full_length_as_in_its_training(siglip: Path):
    from transformers import AutoTokenizer

    teacher, model, tokenizer = teacher_of(siglip), plain_model(siglip), AutoTokenizer.from_pretrained(siglip)
    assert (teacher.mean, teacher.std) == ((0.5,) * 3, (0.5,) * 3)
    ids = tokenizer(TEXTS, padding="max_length", max_length=24, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        texts = model.get_text_features(input_ids=ids).pooler_output
        images = model.get_image_features(pixel_values=picture() * 2 - 1).pooler_output
    together = teacher.encode_texts(TEXTS)
    torch.testing.assert_close(together, texts)
    torch.testing.assert_close(teacher.encode_images(normalised(teacher, picture())), images)
    alone = torch.cat([teacher.encode_texts([text]) for text in TEXTS])
    torch.testing.assert_close(alone, together)


def test_siglip2_of_free_aspect_ratio_gets_its_patches(siglip2: Path):
    from transformers.models.siglip2.image_processing_pil_siglip2 import convert_image_to_patches

    teacher, model = teacher_of(siglip2), plain_model(siglip2)
    assert teacher.image_size == 32
    patches = torch.stack([torch.from_numpy(convert_image_to_patches(image.numpy(), 16)) for image in picture()])
    shapes = {"spatial_shapes": torch.full((2, 2), 2), "pixel_attention_mask": torch.ones(2, 4, dtype=torch.int64)}
    with torch.no_grad():
        expected = model.get_image_features(pixel_values=patches, **shapes).pooler_output
    torch.testing.assert_close(teacher.encode_images(picture()), expected)


def test_siglip2_reads_lower_case_padded_on_the_right(siglip2: Path):
    from transformers import Siglip2Tokenizer

    teacher, model, tokenizer = teacher_of(siglip2), plain_model(siglip2), Siglip2Tokenizer.from_pretrained(siglip2)
    padding = {"padding": "max_length", "max_length": 24, "padding_side": "right"}
    ids = tokenizer([text.lower() for text in TEXTS], return_tensors="pt", **padding)["input_ids"]
    assert set(ids[2, -4:].tolist()) == {0}
    with torch.no_grad():
        expected = model.get_text_features(input_ids=ids).pooler_output
    torch.testing.assert_close(teacher.encode_texts([text.upper() for text in TEXTS]), expected)


@pytest.mark.skipif(bool(importlib.util.find_spec("sentencepiece")), reason="then its own class does this")
def test_siglip_without_sentencepiece_drops_punctuation_like_its_own_tokenizer(tmp_path: Path, siglip: Path):
    folder = save_siglip(tmp_path, "SiglipTokenizer")
    plain = teacher_of(siglip).encode_texts(["a photo of a dog", "a photo"])
    torch.testing.assert_close(teacher_of(folder).encode_texts(["A photo,  of a dog.", "(a) photo!"]), plain)


def test_many_texts_are_embedded_in_order(clip: Path, monkeypatch: pytest.MonkeyPatch):
    whole = teacher_of(clip).encode_texts(TEXTS)
    monkeypatch.setattr("aevlp.models.teacher.TEXTS_AT_ONCE", 2)
    torch.testing.assert_close(teacher_of(clip).encode_texts(TEXTS), whole)


def test_a_long_text_is_cut_to_what_the_model_reads(clip: Path):
    teacher = teacher_of(clip)
    torch.testing.assert_close(teacher.encode_texts(["x " * 500]), teacher.encode_texts(["x " * 22]))


def test_the_model_is_frozen_and_its_embeddings_are_ordinary_tensors(clip: Path):
    teacher = teacher_of(clip)
    assert not teacher._model.training
    assert not any(parameter.requires_grad for parameter in teacher._model.parameters())
    assert {parameter.dtype for parameter in teacher._model.parameters()} == {torch.float32}
    for embeddings in (teacher.encode_texts(TEXTS), teacher.encode_images(picture())):
        assert not embeddings.requires_grad
        weight = torch.ones(embeddings.shape[1], requires_grad=True)
        torch.autograd.grad((embeddings.mul_(2) @ weight).sum(), weight)


def test_under_autocast_embeddings_stay_float32(clip: Path):
    teacher = teacher_of(clip)
    exact = teacher.encode_images(picture())
    with torch.autocast("cpu", torch.bfloat16):
        rough = teacher.encode_images(picture())
    assert rough.dtype == torch.float32
    assert not torch.equal(rough, exact)
    torch.testing.assert_close(rough, exact, rtol=0.1, atol=0.1)


def test_an_older_model_that_returns_plain_tensors_is_understood(clip: Path, monkeypatch: pytest.MonkeyPatch):
    teacher = teacher_of(clip)
    expected = teacher.encode_images(picture())
    wrapped = teacher._model.get_image_features
    monkeypatch.setattr(teacher._model, "get_image_features", lambda **inputs: wrapped(**inputs).pooler_output)
    torch.testing.assert_close(teacher.encode_images(picture()), expected)


# Loading


def test_loading_shows_nothing_on_the_screen(clip: Path, copy: Callable[[Path], Path]):
    from safetensors.torch import load_file, save_file

    weights = copy(clip) / "model.safetensors"
    save_file({**load_file(weights), "surplus": torch.zeros(1)}, weights, metadata={"format": "pt"})
    program = (
        "import sys, torch, aevlp.models.teacher\n"
        f"aevlp.models.teacher.load_teacher({str(clip)!r}, torch.device('cpu')).encode_texts(['a dog'])\n"
        "print('mark', file=sys.stderr)\n"
        f"import transformers; transformers.AutoModel.from_pretrained({str(weights.parent)!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours, theirs = done.stderr.split("mark\n")
    assert (done.stdout, ours) == ("", "")
    assert "LOAD REPORT" in theirs


def test_a_folder_is_loaded_without_any_network(clip: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a connection was attempted")

    monkeypatch.setattr("socket.create_connection", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    teacher_of(clip)


def test_a_cached_hub_model_is_loaded_and_named_by_its_commit(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--owner--model" / "refs").mkdir(parents=True)
    (tmp_path / "models--owner--model" / "refs" / "main").write_text("c0ffee")
    shutil.copytree(clip, tmp_path / "models--owner--model" / "snapshots" / "c0ffee")
    teacher = load_teacher("owner/model", CPU)
    assert teacher.fingerprint == "owner/model@c0ffee"
    torch.testing.assert_close(teacher.encode_texts(TEXTS), teacher_of(clip).encode_texts(TEXTS))


@pytest.mark.parametrize("texts", [["a photo of a dog.", "a photo of a bird."], ["a sketch of a car", "a sketch of a dog"]])
def test_the_demos_teacher_says_which_words_it_knows(texts):
    teacher = load_teacher("demo", CPU)
    with pytest.raises(UserError, match=r"knows only the words of the demo's drawings .* not .*dog.*; it is not for photos"):
        teacher.encode_texts(texts)
    assert len(teacher.encode_texts(["a sketch of a car", "a sketch of a cat"])) == 2  # all classes are known


def test_texts_with_the_same_ids_are_named(siglip: Path):
    says = f"the tokenizer in {siglip} gives the same ids to 'a wolf' and 'a fox': its files .* are likely missing"
    with pytest.raises(UserError, match=says):
        teacher_of(siglip).check_tokens(["a dog", "a wolf", "a fox"])


def test_texts_that_differ_too_late_are_told_so(clip: Path):
    with pytest.raises(UserError, match="they differ only after the 24 tokens that the model reads"):
        teacher_of(clip).encode_texts(["a" * 30 + "dog", "a" * 30 + "cat"])


def test_repeated_and_differently_written_texts_are_fine(clip: Path, caplog: pytest.LogCaptureFixture):
    embeddings = teacher_of(clip).encode_texts(["Dog", "dog", "cat", "dog"])
    torch.testing.assert_close(embeddings[0], embeddings[1])
    torch.testing.assert_close(embeddings[1], embeddings[3])
    assert "reads 'Dog' and 'dog' as the same text" in caplog.text


def test_an_existing_folder_wins_over_a_module(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copytree(clip, tmp_path / "c:clip")
    monkeypatch.chdir(tmp_path)
    assert teacher_of(Path("c:clip")).fingerprint == teacher_of(clip).fingerprint
