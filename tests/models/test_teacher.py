"""A teacher gives the features of its checkpoint, quietly, and refuses what would silently give other ones."""

import contextlib
import importlib.util
import io
import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from aevlp.core.errors import UserError
from aevlp.models.teacher import ClipTeacher, Teacher, load_teacher

CPU = torch.device("cpu")
TINY = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXTS = ["a photo of a dog.", "a photo of a zebra.", "rain"]
WORDS = ["<pad>", "</s>", "<unk>", "a", "photo", "of", "dog", "cat", "zebra", "rain", "."]


def save(model: Any, folder: Path, preprocessor: dict[str, Any]) -> Path:
    for parameter in model.parameters():  # random and large enough that a wrong input shows
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    write_json(folder / "preprocessor_config.json", preprocessor)
    return folder


def write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content))


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny CLIP in half precision, with a tokenizer of single characters."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    letters = sorted(ByteLevel.alphabet())
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    start, end = len(vocabulary) - 2, len(vocabulary) - 1
    ids = {"vocab_size": len(vocabulary), "bos_token_id": start, "eos_token_id": end, "pad_token_id": end}
    text = {**TINY, **ids, "max_position_embeddings": 24}
    config = CLIPConfig(text_config=text, vision_config={**TINY, "image_size": 32, "patch_size": 16}, projection_dim=8)
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    size = {"size": {"shortest_edge": 32}, "do_center_crop": True, "crop_size": 32}
    folder = tmp_path_factory.mktemp("clip")
    save(CLIPModel(config).half(), folder, {**size, "image_mean": mean, "image_std": std})
    write_json(folder / "vocab.json", {token: i for i, token in enumerate(vocabulary)})
    (folder / "merges.txt").write_text("#version: 0.2\n")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "CLIPTokenizer"})
    return folder


def siglip_text_config() -> dict[str, Any]:
    ids = {"vocab_size": 40, "bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
    return {**TINY, **ids, "max_position_embeddings": 24}


def save_siglip(folder: Path, tokenizer_class: str) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import SiglipConfig, SiglipModel

    torch.manual_seed(0)
    vision = {**TINY, "image_size": 32, "patch_size": 16}
    half = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": 32, "width": 32}}
    save(SiglipModel(SiglipConfig(text_config=siglip_text_config(), vision_config=vision)), folder, half)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))
    specials = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": tokenizer_class, **specials})
    return folder


@pytest.fixture(scope="session")
def siglip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_siglip(tmp_path_factory.mktemp("siglip"), "PreTrainedTokenizerFast")


@pytest.fixture(scope="session")
def siglip2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SigLIP2 of free aspect ratio, whose images come as lists of patches."""
    from transformers import Siglip2Config, Siglip2Model, Siglip2Tokenizer

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("siglip2")
    config = Siglip2Config(text_config=siglip_text_config(), vision_config={**TINY, "num_patches": 4, "patch_size": 16})
    save(Siglip2Model(config), folder, {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "max_num_patches": 4})
    characters = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", ".", *"abcdefghijklmnopqrstuvwxyz"]
    Siglip2Tokenizer(vocab={token: i for i, token in enumerate(characters)}).save_pretrained(folder)
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    return lambda folder: Path(shutil.copytree(folder, tmp_path / "copy"))


def teacher_of(folder: Path) -> ClipTeacher:
    teacher = load_teacher(str(folder), CPU)
    assert isinstance(teacher, ClipTeacher)
    return teacher


def plain_model(folder: Path) -> Any:
    from transformers import AutoModel

    return AutoModel.from_pretrained(folder, dtype=torch.float32).eval()


def picture(seed: int = 0) -> torch.Tensor:
    return torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(seed))


def normalised(teacher: Teacher, pixels: torch.Tensor) -> torch.Tensor:
    return (pixels - torch.tensor(teacher.mean)[:, None, None]) / torch.tensor(teacher.std)[:, None, None]


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


def test_pickled_weights_are_refused_and_the_advice_converts_them(
    clip: Path, copy: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
):
    from safetensors.torch import load_file

    folder = copy(clip)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", lambda *_, **__: pytest.fail("something was unpickled"))
        with pytest.raises(UserError, match=r"--teacher .* has only pickled weights \(pytorch_model.bin\)") as caught:
            load_teacher(str(folder), CPU)
    advice = str(caught.value).split("convert them once: ")[1]
    exec(advice.removeprefix('python -c "').removesuffix('"'))
    torch.testing.assert_close(teacher_of(folder).encode_texts(TEXTS), teacher_of(clip).encode_texts(TEXTS))


def test_weights_that_cannot_be_read_are_refused_with_a_traceback_in_the_log(
    clip: Path, copy: Callable[[Path], Path], caplog: pytest.LogCaptureFixture
):
    folder = copy(clip)
    (folder / "model.safetensors").write_bytes(b"no weights")
    caplog.set_level(logging.DEBUG, logger="aevlp")
    with pytest.raises(UserError, match="cannot be loaded as a teacher"):
        load_teacher(str(folder), CPU)
    assert "Traceback" in caplog.text


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda weights: weights.pop("text_projection.weight"), r"1 of .* missing or superfluous .* text_projection\.weight"),
        (lambda weights: weights.update(foreign=torch.ones(2)), r"1 of .* missing or superfluous .* foreign"),
        (lambda weights: weights["text_projection.weight"][0].fill_(torch.nan), r"text_projection\.weight are not all finite"),
    ],
)
def test_weights_that_do_not_fit_are_refused(clip: Path, copy: Callable[[Path], Path], change: Any, says: str):
    with pytest.raises(UserError, match=says):
        load_teacher(str(change_weights(copy(clip), change)), CPU)


def test_positions_in_older_checkpoints_are_no_weights(clip: Path, copy: Callable[[Path], Path]):
    positions = {"text_model.embeddings.position_ids": torch.arange(24)[None]}
    older = change_weights(copy(clip), lambda weights: weights.update(positions))
    torch.testing.assert_close(teacher_of(older).encode_texts(TEXTS), teacher_of(clip).encode_texts(TEXTS))


def test_code_in_the_folder_is_never_run(
    clip: Path, copy: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    folder = copy(clip)
    (folder / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    write_json(folder / "tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["code.Tokens", None]}, "tokenizer_class": "X"})
    with contextlib.suppress(UserError):  # where transformers has a tokenizer for the model, that one is used
        load_teacher(str(folder), CPU)
    write_json(folder / "config.json", {"model_type": "own", "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"}})
    with pytest.raises(
        UserError, match=r"cannot be loaded as a teacher \(it needs code of its own \(auto_map\), which is never run"
    ):
        load_teacher(str(folder), CPU)
    assert not (tmp_path / "ran").exists()


def test_a_model_of_one_tower_is_refused(tmp_path: Path, clip: Path):
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], layer_type="basic")
    ResNetModel(config).save_pretrained(tmp_path)
    shutil.copy(clip / "merges.txt", tmp_path)
    with pytest.raises(UserError, match="a resnet model does not embed both images and texts") as caught:
        load_teacher(str(tmp_path), CPU)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("file", ["model.safetensors", "vocab.json", "config.json"])
def test_broken_files_are_one_line_that_names_the_folder(clip: Path, copy: Callable[[Path], Path], file: str):
    folder = copy(clip)
    (folder / file).write_bytes(b'{"model_type": "no-such-architecture"}')
    with pytest.raises(UserError) as caught:
        load_teacher(str(folder), CPU).encode_texts(TEXTS)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_size_that_the_model_cannot_take_is_refused(clip: Path, copy: Callable[[Path], Path]):
    folder = copy(clip)
    write_json(folder / "preprocessor_config.json", {"size": 48})
    with pytest.raises(UserError, match="the preprocessor asks for images of 48 pixels, the model for 32"):
        load_teacher(str(folder), CPU)


# Tokens


def test_a_tokenizer_without_its_files_is_refused_by_its_folder(clip: Path, copy: Callable[[Path], Path]):
    folder = copy(clip)
    (folder / "vocab.json").unlink()
    (folder / "merges.txt").unlink()
    with pytest.raises(UserError, match="has no tokenizer"):
        load_teacher(str(folder), CPU)


def test_an_empty_tokenizer_is_refused_whatever_the_texts(clip: Path):
    from transformers import CLIPTokenizer

    teacher = teacher_of(clip)
    teacher._tokenizer = CLIPTokenizer()
    for texts in (["a dog", "a cat"], ["a dog", "a horse"], ["a dog"]):
        with pytest.raises(UserError, match=r"has no tokens for 'a dog': its files .* are likely missing") as caught:
            teacher.encode_texts(texts)
        assert str(clip) in str(caught.value)


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
