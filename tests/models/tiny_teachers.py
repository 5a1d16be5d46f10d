"""Tiny checkpoints of teachers, with random weights, and what tests ask of them."""

import json
from pathlib import Path
from typing import Any

import torch

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
